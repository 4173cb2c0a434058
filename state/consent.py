"""Recognition of a plain yes or no; anything else that a person writes is for the model."""

import re
import unicodedata
from typing import Final

_YES_WORDS: Final = (
    "yes|yep|yeah|y|ok|okay|sure|go ahead|do it|do that|delete it|remove it|confirm|approve|accept|si|claro|"
    "vale|adelante|sim|pode|oui|d'accord|vas-y|ja|klar|gerne|mach das|tak|dobrze|ano|jo|da|ya|boleh|có|vâng|"
    "đồng ý|ใช่|ได้|ตกลง|是|是的|好|好的|可以|行|对|嗯"
)
_NO_WORDS: Final = (
    "no|nope|nah|n|don't|do not|cancel|reject|stop|keep it|leave it|never mind|não|non|nein|lieber nicht|nie|"
    "ne|nu|tidak|jangan|không|đừng|ไม่|ไม่ได้|ไม่ต้อง|不|不是|不要|不行|不可以|别"
)
_YES: Final = frozenset(_YES_WORDS.split("|"))
_NO: Final = frozenset(_NO_WORDS.split("|"))
_POLITE: Final = re.compile(
    r"\b(?:please|thanks|thank you|por favor|gracias|obrigad[oa]|merci|bitte|danke|proszę|prosim|te rog)\b"
    r"|(?:ครับ|ค่ะ|คะ|ạ|谢谢|请|吧)"
)
_PARTS: Final = re.compile(r"[.,!;。，！\n\N{THUMBS UP SIGN}]+")
_LONGEST: Final = 60
"""Maximum characters of a plain answer."""


def consent(text: str) -> bool | None:
    """Return True for a plain yes, False for a plain no, and None for any other text."""
    if len(text) > _LONGEST:
        return None
    plain = unicodedata.normalize("NFC", text.replace("’", "'").casefold()).replace("í", "i")
    parts = {" ".join(part.split()) for part in _PARTS.split(_POLITE.sub("", plain))} - {""}
    if not parts:
        return None
    return True if parts <= _YES else False if parts <= _NO else None
