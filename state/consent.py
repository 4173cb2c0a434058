"""Recognition of a plain yes or no in the supported languages."""

import re
import unicodedata
from typing import Final

_YES: Final = (
    "approve|approved|accept|accepted|yes|yep|yeah|yup|y|ok|okay|sure|of course|go ahead|go for it|"
    "do it|do that|please do|confirm|confirmed|agreed|delete it|delete them|delete that|remove it|"
    "remove them|remove that|clear it|sí|claro|vale|de acuerdo|adelante|hazlo|confirmo|bórralo|bórrala|"
    "elimínalo|elimínala|quítalo|quítala|sim|pode|pode ser|tudo bem|pode apagar|pode remover|apaga|oui|"
    "d'accord|vas-y|allez-y|bien sûr|je confirme|supprime-le|supprime-la|supprimez-le|supprimez-la|ja|"
    "klar|gerne|in ordnung|einverstanden|mach das|mach es|lösch es|lösche es|weg damit|tak|jasne|"
    "dobrze|zgoda|potwierdzam|usuń to|usuń|zrób to|ano|jo|jasně|dobře|souhlasím|potvrzuji|smaž to|smaž|"
    "udělej to|da|sigur|bine|confirm|șterge|șterge-o|șterge-l|ya|iya|oke|boleh|setuju|silakan|"
    "lanjutkan|hapus|hapus saja|có|vâng|ừ|được|đồng ý|xóa đi|cứ xóa|ใช่|ตกลง|ได้|โอเค|ยืนยัน|ลบเลย|ลบได้|"
    "เอาเลย|是|是的|对|好|好的|可以|行|确认|同意|嗯|删|删除|删掉"
)
_NO: Final = (
    "reject|rejected|no|nope|nah|n|cancel|don't|do not|don't do it|stop|keep it|leave it|"
    "don't delete it|no thanks|better not|rather not|never mind|mejor no|no lo borres|no la borres|"
    "déjalo|déjala|cancela|não|melhor não|deixa|cancelar|non|surtout pas|annule|laisse|nein|"
    "lieber nicht|nicht löschen|lass es|abbrechen|nie|lepiej nie|zostaw|anuluj|ne|radši ne|nech to|"
    "zrušit|nu|mai bine nu|lasă|anulează|tidak|jangan|nggak|enggak|gak|batal|không|đừng|thôi|"
    "không được|không đồng ý|đừng xóa|ไม่|ไม่ใช่|ไม่ได้|ไม่เอา|ไม่ต้อง|ไม่ลบ|อย่า|อย่าลบ|ยกเลิก|不|不是|不对|不好|"
    "不可以|不行|不要|不用|不同意|不删|不删除|别|别删|不要删|不要删除|取消|算了"
)
_FILLERS: Final = (
    "please|thanks|thank you|and|then|now|por favor|gracias|obrigado|obrigada|s'il te plaît|"
    "s'il vous plaît|merci|bitte|danke|und|proszę|dziękuję|prosím|děkuji|vă rog|te rog|mulțumesc|"
    "tolong|saja|terima kasih|ạ|nhé|cảm ơn|ครับ|ค่ะ|คะ|นะ|เลย|请|吧|了|谢谢"
)
"""Words that may accompany either, separated by | as above."""
_LONGEST: Final = 200
"""Maximum characters of a plain answer."""


def consent(text: str) -> bool | None:
    """Return True for a plain yes, False for a plain no, and None for any other text."""
    plain = _plain(text) if len(text) <= _LONGEST else ""
    for answer, pattern in _ANSWERS.items():
        if pattern.fullmatch(plain):
            return answer
    return None


def _plain(text: str) -> str:
    """Return the words in lower case, without punctuation and without accents, which people often omit."""
    parts = unicodedata.normalize("NFKD", text.replace("’", "'").casefold())
    bare = unicodedata.normalize("NFC", "".join(char for char in parts if not "\u0300" <= char <= "\u036f"))
    return " ".join(re.sub(r"[^\w\s'\u0e30-\u0e4e]", " ", bare).split())


def _pattern(phrases: str) -> re.Pattern[str]:
    """Return a pattern for one or more of the phrases, with filler words around them.

    Some phrases consist of others ("no thanks"), so unbounded repetitions would take exponential time.
    """
    phrase, filler = _either(phrases), _either(_FILLERS)
    return re.compile(f"(?:{filler} ?){{0,4}}{phrase}(?: ?(?:{phrase}|{filler})){{0,6}}")


def _either(phrases: str) -> str:
    # Longest first. Thai and Chinese words have no spaces around them.
    known = sorted({_plain(phrase) for phrase in phrases.split("|")}, key=len, reverse=True)
    ends = (rf"{re.escape(phrase)}\b" if phrase[-1] < "\u0e00" else re.escape(phrase) for phrase in known)
    return f"(?:{'|'.join(ends)})"


_ANSWERS: Final = {True: _pattern(_YES), False: _pattern(_NO)}
