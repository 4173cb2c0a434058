"""A text as it is spoken: numbers, prices, times, addresses and initialisms in words.

English, German, Spanish, French and Polish numbers are written out. In other languages digits stay, and only
signs that are read by letters are taken apart.
"""

import re
from functools import lru_cache
from typing import Final

from callsheet.state.languages import find
from callsheet.state.number_words import (
    MAX_DIGITS,
    NUMBER_LANGUAGES,
    cardinal_words,
    digit_words,
    year_words,
)

_WORDS: Final = {
    "en": "percent|point|dot|at|slash|and|to|o'clock|double you|plus|number|minus",
    "de": "Prozent|Komma|Punkt|at|Schrägstrich|und|bis|Uhr|we|plus|Nummer|minus",
    "es": "por ciento|coma|punto|arroba|barra|y|a|en punto|uve doble|más|número|menos",
    "fr": "pour cent|virgule|point|arobase|barre oblique|et|à|heures|double vé|plus|numéro|moins",
    "pl": "procent|przecinek|kropka|małpa|ukośnik|i|do|zero zero|wu|plus|numer|minus",
}
_NAMES: Final = ("%", ",", ".", "@", "/", "&", "-", ":", "w", "+", "#", "−")
_SIGNS: Final = {code: dict(zip(_NAMES, words.split("|"), strict=True)) for code, words in _WORDS.items()}
_CURRENCIES: Final = {
    "en": {"$": "dollars", "€": "euros", "£": "pounds", "zł": "zlotys", "¥": "yen"},
    "de": {"$": "Dollar", "€": "Euro", "£": "Pfund", "zł": "Zloty", "¥": "Yen"},
    "es": {"$": "dólares", "€": "euros", "£": "libras", "zł": "zlotys", "¥": "yenes"},
    "fr": {"$": "dollars", "€": "euros", "£": "livres", "zł": "zlotys", "¥": "yens"},
    "pl": {"$": "dolarów", "€": "euro", "£": "funtów", "zł": "złotych", "¥": "jenów"},
}
_CODES: Final = {"USD": "$", "EUR": "€", "GBP": "£", "PLN": "zł", "JPY": "¥"}
_UNITS: Final = {
    "km/h": "kilometres per hour|Stundenkilometer|kilómetros por hora|kilomètres heure|kilometrów na godzinę",
    "km": "kilometres|Kilometer|kilómetros|kilomètres|kilometrów",
    "cm": "centimetres|Zentimeter|centímetros|centimètres|centymetrów",
    "mm": "millimetres|Millimeter|milímetros|millimètres|milimetrów",
    "m²": "square metres|Quadratmeter|metros cuadrados|mètres carrés|metrów kwadratowych",
    "kg": "kilograms|Kilogramm|kilogramos|kilogrammes|kilogramów",
    "ml": "millilitres|Milliliter|mililitros|millilitres|mililitrów",
    "kWh": "kilowatt hours|Kilowattstunden|kilovatios hora|kilowattheures|kilowatogodzin",
    "GB": "gigabytes|Gigabyte|gigabytes|gigaoctets|gigabajtów",
    "MB": "megabytes|Megabyte|megabytes|mégaoctets|megabajtów",
    "°C": "degrees Celsius|Grad Celsius|grados centígrados|degrés Celsius|stopni Celsjusza",
    "°": "degrees|Grad|grados|degrés|stopni",
    "m": "metres|Meter|metros|mètres|metrów",
    "g": "grams|Gramm|gramos|grammes|gramów",
    "l": "litres|Liter|litros|litres|litrów",
}
_COLUMNS: Final = {"en": 0, "de": 1, "es": 2, "fr": 3, "pl": 4}
_NUMBER: Final = r"\d{1,15}(?:[.,\u00a0\u202f ]\d{3}(?!\d)){0,4}(?:[.,]\d{1,6})?(?!\d)"
_SIGN: Final = re.compile(
    rf"""
    (?P<address>\b[\w+-]{{1,40}}(?:\.[\w+-]{{1,40}}){{0,4}}@[\w-]{{1,40}}(?:\.[\w-]{{1,40}}){{1,4}}
      |(?:https?://)?\b[\w-]{{1,40}}(?:\.[\w-]{{1,40}}){{0,4}}\.[a-z]{{2,6}}\b(?:/[\w/-]{{0,60}})?)
    |(?P<phone>(?<![\d.,])(?:\+\d|\(?0|1[ -]8)[\d()/ -]{{5,20}}\d(?![\d.,]\d))
    |(?P<currency>[$€£¥])\s?(?P<price>{_NUMBER})
    |(?P<amount>{_NUMBER})\s?(?P<coin>[$€£¥]|zł|(?:USD|EUR|GBP|PLN|JPY)\b)
    |(?P<share>{_NUMBER})\s?%
    |(?P<time>(?<!\d)[0-2]?\d:[0-5]\d(?!\d))(?:\s?Uhr\b)?
    |(?P<measure>{_NUMBER})\s?(?P<unit>km/h|km|cm|mm|m²|kg|ml|kWh|GB|MB|°C|°|m|g|l)(?![\w/])
    |(?P<low>(?<![\d.,-])\d{{1,6}})\s?[-–]\s?(?P<high>\d{{1,6}}(?![\d.,]?\d))
    |(?P<ordinal>\d{{1,4}})(?:st|nd|rd|th|er|re|º|ª|e)\b
    |(?P<year>(?<![\d.,])(?:1[1-9]|20)\d\d(?![\d]|[.,]\d))
    |(?P<number>{_NUMBER}|\d+)
    |(?P<letters>\b[A-ZÀ-ÖØ-Þ]{{2,6}}(?![\w’']))
    |(?P<sign>[&+#@])
    """,
    re.VERBOSE,
)
_VOWELS: Final = re.compile(r"[AEIOUYÀ-ÖØ-Þ]")
_CAPITALS_AFTER: Final = re.compile(r"\s[A-Z]{2}")
_CAPITALS_BEFORE: Final = re.compile(r"[A-Z]{2}\s$")
"""A word in capitals beside another one is words loudly, and not spelled."""
_SPELLED: Final = 3
"""Letters of an initialism that is spelled although it has vowels; longer ones are read as words."""
_SHOUTED: Final = 0.6
"""Share of words in capitals from which a text is shouted, so that only what has no vowel is spelled."""


@lru_cache(maxsize=512)
def text_aloud(text: str, language: str) -> str:
    """Return the text as it is read aloud; an unknown language is read as English."""
    known = find(language)
    reader = _Reader(known.code if known else "en", text)
    return _SIGN.sub(reader.read, text)


class _Reader:
    """Reads the signs of one text."""

    def __init__(self, code: str, text: str) -> None:
        self._code = code
        self._names = _SIGNS.get(code, _SIGNS["en"])
        words = [word for word in text.split() if any(map(str.isalpha, word))]
        self._shouts = len(words) > 1 and sum(map(str.isupper, words)) / len(words) > _SHOUTED

    def read(self, match: re.Match[str]) -> str:
        """Return what is said for a match of `_SIGN`, with blanks around it."""
        kind = next(name for name in match.groupdict() if match[name] is not None)
        if kind == "letters":
            return f" {self._initials(match[0])} " if self._is_spelled(match) else match[0]
        if kind == "address":
            return f" {self._address(match[0])} "
        if kind == "sign":
            return f" {self._names[match[0]]} "
        if self._code not in NUMBER_LANGUAGES:
            return match[0]
        return f" {_READERS[kind](self, match)} "

    def _is_spelled(self, match: re.Match[str]) -> bool:
        if not _VOWELS.search(match[0]):
            return True
        text, start, end = match.string, match.start(), match.end()
        is_shouted = self._shouts or bool(
            _CAPITALS_AFTER.match(text, end) or _CAPITALS_BEFORE.search(text[max(0, start - 4) : start])
        )
        return len(match[0]) <= _SPELLED and not is_shouted

    def _initials(self, letters: str) -> str:
        return " ".join(self._names["w"] if letter in "wW" else letter for letter in letters)

    def _address(self, text: str) -> str:
        words = []
        for part in re.findall(r"[^\W_]+|[.@/-]", text.removeprefix("https://").removeprefix("http://")):
            if part.isalnum():
                words.append(self._initials(part) if part.casefold() == "www" else part)
            else:
                words.append("" if part == "-" else self._names[part])
        return " ".join(words)

    def _phone(self, match: re.Match[str]) -> str:
        digits = digit_words(re.sub(r"\D", "", match[0]), self._code)
        return f"{self._names['+']} {digits}" if match[0].startswith("+") else digits

    def _price(self, match: re.Match[str]) -> str:
        sign = match["currency"] or match["coin"]
        name = _CURRENCIES[self._code][_CODES.get(sign, sign)]
        integer, part = self._split(match["price"] or match["amount"])
        cents = cardinal_words(int(part.ljust(2, "0")[:2]), self._code) if part.strip("0") else ""
        return f"{self._integer(integer)} {name} {cents}"

    def _share(self, match: re.Match[str]) -> str:
        return f"{self._decimal(match['share'])} {self._names['%']}"

    def _time(self, match: re.Match[str]) -> str:
        hour, minute = match["time"].split(":")
        words = cardinal_words(int(hour), self._code)
        if not int(minute):
            return f"{words} {self._names[':']}"
        between = self._names[":"] if self._code in {"de", "fr"} else ""
        zero = f"{digit_words('0', self._code)} " if minute[0] == "0" and self._code in {"en", "pl"} else ""
        return f"{words} {between} {zero}{cardinal_words(int(minute), self._code)}"

    def _measure(self, match: re.Match[str]) -> str:
        unit = _UNITS[match["unit"]].split("|")[_COLUMNS[self._code]]
        return f"{self._decimal(match['measure'])} {unit}"

    def _range(self, match: re.Match[str]) -> str:
        low, high = self._plain(match["low"]), self._plain(match["high"])
        return f"{low} {self._names['-']} {high}"

    def _plain(self, digits: str) -> str:
        is_year = len(digits) == len("1999") and digits[:2] in {"17", "18", "19", "20"}
        return year_words(int(digits), self._code) if is_year else self._integer(digits)

    def _ordinal(self, match: re.Match[str]) -> str:
        return cardinal_words(int(match["ordinal"]), self._code)

    def _year(self, match: re.Match[str]) -> str:
        return year_words(int(match[0]), self._code)

    def _number(self, match: re.Match[str]) -> str:
        return self._decimal(match[0])

    def _decimal(self, text: str) -> str:
        integer, part = self._split(text)
        words = self._integer(integer)
        return f"{words} {self._names[',']} {digit_words(part, self._code)}" if part else words

    def _integer(self, digits: str) -> str:
        if len(digits) > MAX_DIGITS or (len(digits) > 1 and digits[0] == "0"):
            return digit_words(digits, self._code)
        return cardinal_words(int(digits), self._code)

    def _split(self, text: str) -> tuple[str, str]:
        """Return the digits before and after the decimal mark."""
        mark = "." if self._code == "en" else ","
        head, has_mark, tail = text.rpartition(mark)
        other = "," if mark == "." else "."
        if has_mark and mark not in head and not (len(tail) == 3 and other not in text and mark == ","):  # noqa: PLR2004
            return re.sub(r"\D", "", head), tail
        head, has_mark, tail = text.rpartition(other)
        if has_mark and other not in head and mark not in text and len(tail) != 3:  # noqa: PLR2004 -- no thousands
            return re.sub(r"\D", "", head), tail
        return re.sub(r"\D", "", text), ""


_READERS: Final = {
    "phone": _Reader._phone,  # noqa: SLF001
    "currency": _Reader._price,  # noqa: SLF001
    "amount": _Reader._price,  # noqa: SLF001
    "share": _Reader._share,  # noqa: SLF001
    "time": _Reader._time,  # noqa: SLF001
    "measure": _Reader._measure,  # noqa: SLF001
    "low": _Reader._range,  # noqa: SLF001
    "ordinal": _Reader._ordinal,  # noqa: SLF001
    "year": _Reader._year,  # noqa: SLF001
    "number": _Reader._number,  # noqa: SLF001
}
