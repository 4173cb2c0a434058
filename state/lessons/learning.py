"""Learning styles, and adjustment of the reading level on request (B64)."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from callsheet.state.lessons.student import interests

Style = Literal["visual", "auditory", "reading", "hands-on"]
_CUES: Final[Mapping[Style, str]] = {
    "hands-on": r"hands[\s-]?on|by doing|(?:by|from|through) (?:touch|mak|build|mov|try)ing|kin[ae]?esthetic"
    r"|tactile|with (?:his|her|their) hands|haciendo|tocando|practicando|con las manos|durch (?:tun|machen"
    r"|ausprobieren|anfassen)|mit den händen|praktisch|en (?:faisant|manipulant|touchant)|avec les mains",
    "visual": r"visual(?:ly)?|(?:with|from|through|by) (?:pictures|images|diagrams|drawings|seeing|watching)"
    r"|(?:con|viendo) (?:imágenes|dibujos|fotos|diagramas)|viendo|visuell\w*|mit (?:bildern|zeichnungen)"
    r"|durch (?:sehen|zuschauen)|avec des (?:images|dessins|schémas)|en regardant|visuel(?:le)?",
    "auditory": r"auditory|(?:by|from|through) (?:listening|hearing|songs?|stories)|by ear|escuchando|oyendo"
    r"|auditiv\w*|de oído|(?:durch|beim) (?:zu)?hören|en écoutant|à l['’]oreille|auditif",
    "reading": r"(?:by|from|through) reading|reading and writing|reads? to learn|leyendo|(?:durch|beim) lesen"
    r"|en lisant",
}
_CHINESE: Final[Mapping[Style, str]] = {
    "hands-on": "动手|实践|边做边学",
    "visual": "看图|图片|图画|视觉",
    "auditory": "听",
    "reading": "阅读|读书",
}
_LEARNS: Final = re.compile(
    r"\b(?:learn\w*|understand\w*|remember\w*|takes? in|thinker|style|aprend\w+|entiend\w+|recuerd\w+"
    r"|lern\w*|versteh\w+|merk\w+|appren\w+|compren\w+|retien\w*)\b|学得|学习|记得|记住|理解",
    re.IGNORECASE,
)
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
_EASIER: Final = re.compile(
    r"\b(?:easier|simpler|simplify|plainer|too (?:hard|difficult|complicated|advanced))\b", re.IGNORECASE
)
_HARDER: Final = re.compile(
    r"\b(?:harder|too (?:easy|simple|childish)|more (?:challenging|difficult|advanced))\b", re.IGNORECASE
)
LOWEST: Final = 1.0
HIGHEST: Final = 12.0
"""Range of school grades after adjustment."""


def style(text: str | None) -> Style | None:
    """Return the learning style in a statement about learning ("learns best with pictures"), or None."""
    return named_style(text) if text and _LEARNS.search(text) else None


def named_style(text: str | None) -> Style | None:
    """Return the learning style that a text names ("with pictures"), or None."""
    styles = (
        name
        for name, words in _CUES.items()
        if re.search(rf"\b(?:{words})\b|{_CHINESE[name]}", text or "", re.IGNORECASE)
    )
    return next(styles, None)


def split_interests(text: str | None) -> tuple[str | None, str | None]:
    """Return the interests in a text and its statements about learning, each None if there are none.

    A text without such statements is returned unchanged as interests.
    """
    parts = interests(text)
    styles = [part for part in parts if style(part)]
    if not styles:
        return text, None
    return ", ".join(without_styles(parts)) or None, ", ".join(styles)


def without_styles(wishes: Iterable[str]) -> list[str]:
    """Return the wishes that are interests, without statements about learning."""
    return [wish_text for wish_text in wishes if style(wish_text) is None]


def visual_guidance(learning_style: Style | None, language: str = "english") -> str:
    """Return the visual guidance for a learning style, in English if `language` has none; empty for None."""
    return _GUIDANCE.get(language, _GUIDANCE["english"])[learning_style] if learning_style else ""


def level_shift(guidance: str | None) -> int:
    """Return the change in grades that a wish asks for: -1 for easier, 1 for harder, else 0."""
    if not guidance:
        return 0
    return 1 if _HARDER.search(guidance) else -1 if _EASIER.search(guidance) else 0


def shifted_level(level: float, shift_by: int) -> float:
    """Return the grade `level` changed by `shift_by` grades, within the range."""
    return min(HIGHEST, max(LOWEST, level + shift_by))
