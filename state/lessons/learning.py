"""Visual guidance by learning style, and arithmetic of the reading level."""

from collections.abc import Mapping
from typing import Final, Literal

Style = Literal["visual", "auditory", "reading", "hands-on"]
_GUIDANCE: Final[Mapping[str, Mapping[Style, str]]] = {
    "english": {
        "visual": "Show it in large, clear pictures and diagrams.",
        "auditory": "Let sounds and the voice carry it; keep the picture calm.",
        "reading": "Put the key words on the screen to read along.",
        "hands-on": "Show what the student can try with their own hands.",
    },
    "spanish": {
        "visual": "Muéstralo con imágenes y diagramas grandes y claros.",
        "auditory": "Deja que la voz y los sonidos lo cuenten; que la imagen sea tranquila.",
        "reading": "Pon las palabras clave en la pantalla para leerlas.",
        "hands-on": "Muestra lo que el alumno puede probar con sus propias manos.",
    },
    "german": {
        "visual": "Zeige es in großen, klaren Bildern und Schaubildern.",
        "auditory": "Lass Stimme und Klänge erzählen; das Bild bleibt ruhig.",
        "reading": "Blende die wichtigsten Wörter zum Mitlesen ein.",
        "hands-on": "Zeige, was man mit den eigenen Händen ausprobieren kann.",
    },
    "french": {
        "visual": "Montre-le avec de grandes images et des schémas clairs.",
        "auditory": "Laisse la voix et les sons raconter ; l'image reste calme.",
        "reading": "Affiche les mots clés à l'écran pour les lire.",
        "hands-on": "Montre ce que l'élève peut essayer de ses propres mains.",
    },
    "chinese": {
        "visual": "用大而清楚的图片和示意图来展示。",
        "auditory": "让声音来讲述，画面保持简单。",
        "reading": "把关键词放在屏幕上，方便跟读。",
        "hands-on": "展示学生可以亲手尝试的内容。",
    },
}
LOWEST: Final = 1.0
HIGHEST: Final = 12.0
"""Range of school grades after adjustment."""


def visual_guidance(learning_style: str | None, language: str = "english") -> str:
    """Return the visual guidance for a learning style, in English if `language` has none.

    A style that is described in other words is returned in these words; empty for None.
    """
    words = learning_style or ""
    table = _GUIDANCE.get(language, _GUIDANCE["english"])
    return next((text for style, text in table.items() if style == words.strip().casefold()), words)


def shifted_level(level: float, shift_by: int) -> float:
    """Return the grade `level` changed by `shift_by` grades, within the range."""
    return min(HIGHEST, max(LOWEST, level + shift_by))
