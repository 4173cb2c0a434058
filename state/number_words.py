"""Numbers as words in English, German, Spanish, French and Polish."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final


def _words(text: str) -> list[str]:
    return text.split()


_EN: Final = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_EN_TENS: Final = _words("twenty thirty forty fifty sixty seventy eighty ninety")
_DE: Final = _words(
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn"
)
_DE_TENS: Final = _words("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
_ES: Final = _words(
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis "
    "diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco "
    "veintiséis veintisiete veintiocho veintinueve"
)
_ES_TENS: Final = _words("veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa")
_ES_HUNDREDS: Final = _words(
    "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos"
)
_FR: Final = _words(
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept "
    "dix-huit dix-neuf"
)
_FR_TENS: Final = _words("vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt")
_PL: Final = _words(
    "zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć jedenaście dwanaście trzynaście "
    "czternaście piętnaście szesnaście siedemnaście osiemnaście dziewiętnaście"
)
_PL_TENS: Final = _words(
    "dwadzieścia trzydzieści czterdzieści pięćdziesiąt sześćdziesiąt siedemdziesiąt osiemdziesiąt "
    "dziewięćdziesiąt"
)
_PL_HUNDREDS: Final = _words("sto dwieście trzysta czterysta pięćset sześćset siedemset osiemset dziewięćset")
_SCALES: Final = {
    "en": ("thousand", "million", "billion", "trillion"),
    "de": ("tausend", "Millionen", "Milliarden", "Billionen"),
    "es": ("mil", "millones", "mil millones", "billones"),
    "fr": ("mille", "millions", "milliards", "billions"),
    "pl": ("tysięcy", "milionów", "miliardów", "bilionów"),
}
NUMBER_LANGUAGES: Final = frozenset(_SCALES)
"""Codes of the languages."""
MAX_DIGITS: Final = 15
"""Digits of a number that is read as one; longer ones are read digit by digit."""
_TEN, _TWENTY, _HUNDRED, _THOUSAND = 10, 20, 100, 1_000
_OPENING_YEARS: Final = range(1_100, 2_000)
_LATER_YEARS: Final = range(2_010, 2_100)


def cardinal_words(value: int, code: str) -> str:
    """Return a whole number of at most `MAX_DIGITS` digits in words."""
    if value < _THOUSAND:
        return _below_thousand(value, code)
    groups: list[str] = []
    scale = -1
    while value:
        value, part = divmod(value, _THOUSAND)
        if part:
            groups.insert(0, _group(part, scale, code))
        scale += 1
    return _join(groups, code)


def _join(groups: list[str], code: str) -> str:
    """Return the groups as one text; German writes all below a million as one word."""
    if code == "de" and len(groups) > 1 and groups[-2].endswith("tausend"):
        return " ".join([*groups[:-2], groups[-2] + groups[-1]])
    return " ".join(groups)


def _group(part: int, scale: int, code: str) -> str:
    """Return three digits with the name of their place."""
    if scale < 0:
        return _below_thousand(part, code)
    name = _SCALES[code][scale]
    if part == 1 and scale == 0 and code != "en":
        return "eintausend" if code == "de" else "tysiąc" if code == "pl" else name
    words = _below_thousand(part, code)
    if code == "de":
        words = words.removesuffix("s") if words.endswith("eins") else words
        return f"{words}{name}" if scale == 0 else f"{words} {name}"
    return f"{words} {name}"


def year_words(value: int, code: str) -> str:
    """Return a year in words: English and German name its centuries."""
    high, low = divmod(value, _HUNDRED)
    if code == "en" and (value in _OPENING_YEARS or value in _LATER_YEARS):
        rest = _below_thousand(low, code) if low >= _TEN else f"oh {_EN[low]}" if low else "hundred"
        return f"{_below_thousand(high, code)} {rest}"
    if code == "de" and value in _OPENING_YEARS:
        return f"{_below_thousand(high, code)}hundert{_below_thousand(low, code) if low else ''}"
    return cardinal_words(value, code)


def digit_words(digits: str, code: str) -> str:
    """Return every digit as a word."""
    return " ".join(_below_thousand(int(digit), code) for digit in digits)


def _below_thousand(value: int, code: str) -> str:
    hundreds, rest = divmod(value, _HUNDRED)
    if not hundreds:
        return _BELOW_HUNDRED[code](rest)
    head = _hundreds(hundreds, rest, code)
    if not rest:
        return head
    return f"{head}{'' if code == 'de' else ' '}{_BELOW_HUNDRED[code](rest)}"


def _hundreds(count: int, rest: int, code: str) -> str:
    match code:
        case "en":
            return f"{_EN[count]} hundred"
        case "de":
            return f"{'ein' if count == 1 else _DE[count]}hundert"
        case "es":
            return "cien" if count == 1 and not rest else _ES_HUNDREDS[count - 1]
        case "fr":
            return "cent" if count == 1 else f"{_FR[count]} cent"
    return _PL_HUNDREDS[count - 1]


def _english(value: int) -> str:
    tens, rest = divmod(value, _TEN)
    return _EN[value] if value < _TWENTY else _EN_TENS[tens - 2] + (f" {_EN[rest]}" if rest else "")


def _german(value: int) -> str:
    tens, rest = divmod(value, _TEN)
    if value < _TWENTY:
        return _DE[value]
    return f"{'ein' if rest == 1 else _DE[rest]}und{_DE_TENS[tens - 2]}" if rest else _DE_TENS[tens - 2]


def _spanish(value: int) -> str:
    tens, rest = divmod(value, _TEN)
    return _ES[value] if value < len(_ES) else _ES_TENS[tens - 2] + (f" y {_ES[rest]}" if rest else "")


def _french(value: int) -> str:
    tens, rest = divmod(value, _TEN)
    if value < _TWENTY:
        return _FR[value]
    # Seventy is "sixty ten", ninety "eighty ten".
    rest += _TEN if tens in {7, 9} else 0
    return _FR_TENS[tens - 2] + (f" {_FR[rest]}" if rest else "")


def _polish(value: int) -> str:
    tens, rest = divmod(value, _TEN)
    return _PL[value] if value < _TWENTY else _PL_TENS[tens - 2] + (f" {_PL[rest]}" if rest else "")


_BELOW_HUNDRED: Final = {"en": _english, "de": _german, "es": _spanish, "fr": _french, "pl": _polish}


_NUMBER_WORD: Final = re.compile(r"[^\W\d_]++")
_LONGEST: Final = 6
"""Words of the longest number below a thousand: `quatre cent quatre-vingt-dix-sept`."""
_UNSURE: Final = frozenset({"cent", "mil", "sto", "six", "seize", "once", "elf"})
"""Number words of one language that are words of another, too."""
_SURE: Final = 20
"""Least number that is read where the text's language is not known."""


def numbers_in_words(text: str, code: str = "") -> list[float]:
    """Return the numbers from 2 to 999 that a text has in German, Spanish, French or Polish words.

    Without the code of one of them, only what no other language has as a word.
    """
    vocabularies = [_values_of(one) for one in ([code] if code in _READ else _READ if not code else [])]
    tokens = _plain_words(text)
    numbers: list[float] = []
    at = 0
    while at < len(tokens):
        size, value = _longest_number(tokens[at : at + _LONGEST], vocabularies)
        if value and (code or (value >= _SURE and tokens[at] not in _UNSURE)):
            numbers.append(float(value))
        at += size or 1
    return numbers


def _longest_number(tokens: list[str], vocabularies: Sequence[Mapping[str, int]]) -> tuple[int, int]:
    """Return the words of the longest number at the beginning, and its value; zeros for none."""
    for size in range(len(tokens), 0, -1):
        words = " ".join(tokens[:size])
        if value := next((each[words] for each in vocabularies if words in each), 0):
            return size, value
    return 0, 0


_READ: Final = ("de", "es", "fr", "pl")


@cache
def _values_of(code: str) -> Mapping[str, int]:
    """Return the numbers from 2 to 999 by their words."""
    return {" ".join(_plain_words(_below_thousand(value, code))): value for value in range(2, _THOUSAND)}


_FORMS: Final = {"cents": "cent", "vingts": "vingt", "una": "uno", "une": "un"}


def _plain_words(text: str) -> list[str]:
    """Return the words of a text, numbers without the forms that a noun gives them: cents, cuatrocientas."""
    words = (word.replace("cientas", "cientos") for word in _NUMBER_WORD.findall(text.casefold()))
    return [_FORMS.get(word, word) for word in words if word != "et"]
