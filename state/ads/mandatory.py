"""Lines that a brief wants spoken: contacts, prices, dates, codes, legal lines; and those a script lacks.

Figures, addresses and codes are found by their form, legal lines by the marks that briefs give them. The
comparison is generous: a number may be spoken in digits or English words, an address letter by letter. In
other languages a number may be spelled in words that are not known, so it is to be checked, not missing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final, Literal, NamedTuple

from callsheet.state.claims import share
from callsheet.state.figures import has_number
from callsheet.state.languages import detect
from callsheet.state.names import MONTHS
from callsheet.state.number_words import digit_tokens

Kind = Literal["phone number", "address", "price", "date", "code", "legal line", "exact words"]
MAX_LINES: Final = 20
"""Most lines of a brief that are compared."""
_MIN_SHARE: Final = 0.7
"""Least share of a legal line's words that a script has."""
_MIN_DIGITS: Final = 3
"""Numbers with fewer digits are compared by value, not as a row of digits."""
_PHONE_DIGITS: Final = (7, 15)
_MAX_GAP: Final = 2
"""Most words between two parts of a number, as in "four dollars and ninety-nine cents"."""
_FILES: Final = frozenset({"pdf", "doc", "docx", "xlsx", "pptx", "wav", "jpg", "jpeg", "png", "txt", "zip"})
_CONNECTORS: Final = frozenset({"dot", "point", "slash", "dash", "hyphen", "at", "www", "http", "https"})

_ADDRESS: Final = re.compile(
    r"(?<![\w@.-])(?:https?://)?[A-Za-z0-9][\w-]{0,62}(?:\.[\w-]{1,63}){0,4}\.[a-z]{2,24}(?![\w@-])"
    r"(?:/[^\s,;)\"”]{0,200})?"
)
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_PHONE: Final = re.compile(
    r"(?<![\w.,/:+(-])[+(]{0,2}\d(?:(?:[ ()/-]{1,3}|\.(?=\d\d))?\d){6,14}(?!\w|[.,]\d)"
)
_SHORT_PHONE: Final = re.compile(
    r"\b(?:call|dial|phone|tel|telephone)\b\.?:? {1,3}(\d[\d -]{1,20}\d)|(?<!\w)(1-8\d\d-[A-Z0-9-]{4,14})",
    re.IGNORECASE,
)
_UNITS: Final = (
    r"percent|per cent|zł|kč|lei|dollars?|euros?|pounds?|baht|บาท|元|円|원|USD|EUR|GBP|THB|PLN|CZK|RON|INR"
)
_PRICE: Final = re.compile(
    r"(?:[$€£¥₹฿₫₽₺₩]|\b(?:USD|EUR|GBP|THB|PLN|CZK|RON|INR|IDR|VND|Rp) ?)\d++(?:[.,]\d++)*+"
    rf"|(?<![\d.,])\d++(?:[.,]\d++)*+ ?(?:[$€£¥₹฿₫₽₺₩%]|(?:{_UNITS})(?!\w))",
    re.IGNORECASE,
)
_MONTH_NAMES: Final = "|".join(f"{name.title()}|{name[:3].title()}" for name in MONTHS)
_DATE: Final = re.compile(
    r"(?<![\w./-])(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4})(?!\w)"
    rf"|(?<!\w)\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTH_NAMES})(?!\w)"
    rf"|(?<!\w)(?:{_MONTH_NAMES})\.? \d{{1,2}}(?:st|nd|rd|th)?(?!\w)"
)
_CODE: Final = re.compile(
    r"(?:\b(?i:code|código|codice|kod|kód|cod|mã)\b|โค้ด|รหัส|优惠码|代码):?\s{0,3}[\"'“‘]?([A-Z0-9][A-Z0-9-]{2,19})(?!\w)"
)
_YEARS: Final = re.compile(r"\d{4} ?[-–/] ?\d{4}")
_LABEL: Final = re.compile(
    r"\b(?:legal|disclaimer|t&cs?|terms|mandatory|must include|must say|must be said|small print)\b"
    r"[^:\n.]{0,25}:[ \t]*\n?[ \t]*([^\n]+)",
    re.IGNORECASE,
)
_VERBATIM: Final = re.compile(
    r"\b(?:must say|must include|must mention|must be said|verbatim|word for word|say exactly)\b"
    r"[^\"“\n]{0,60}[\"“]([^\"”\n]{3,400})[\"”]",
    re.IGNORECASE,
)
_TERMS: Final = re.compile(r"\bt&cs?\b|\bterms (?:and|&) conditions\b|\bterms apply\b", re.IGNORECASE)
_SENTENCE: Final = re.compile(r"(?<=[.!?。])\s+|\n+")
_NEXT_LABEL: Final = re.compile(r"\w{1,20}(?: \w{1,20})?: ")


class MandatoryLine(NamedTuple):
    """Something that a brief wants spoken."""

    kind: Kind
    text: str
    """As the brief writes it."""

    def __str__(self) -> str:
        quoted = f"“{self.text}”" if self.kind in {"legal line", "exact words"} else self.text
        return f"{self.kind} {quoted}"


class Comparison(NamedTuple):
    """The lines of a brief that a script lacks."""

    missing: tuple[MandatoryLine, ...]
    check: tuple[MandatoryLine, ...]
    """Those that may be spoken in words that are not known here."""


def mandatory_lines(brief: str) -> list[MandatoryLine]:
    """Return what a brief wants spoken, in the order of kinds; at most `MAX_LINES`."""
    lines = chain(_legal_lines(brief), _contacts(brief), _figures(brief))
    by_text: dict[str, MandatoryLine] = {}
    for line in lines:
        by_text.setdefault(line.text.casefold(), line)
    return [*by_text.values()][:MAX_LINES]


def compare(lines: Sequence[MandatoryLine], script: str, language: str) -> Comparison:
    """Return the lines that a script in this language lacks, and those that a person has to check."""
    speech = _Speech(script)
    absent = [line for line in lines if not speech.has(line)]
    unsure = [line for line in absent if _is_unsure(line, language)]
    return Comparison(tuple(line for line in absent if line not in unsure), tuple(unsure))


def _is_unsure(line: MandatoryLine, language: str) -> bool:
    """Return True if the line may be there in the words of another language."""
    if line.kind == "legal line":
        return detect(line.text) not in ({language, None} if language == "english" else {language})
    return language != "english" and line.kind != "exact words"


def _legal_lines(brief: str) -> Iterator[MandatoryLine]:
    quoted = [match[1].strip() for match in _VERBATIM.finditer(brief)]
    yield from (MandatoryLine("exact words", text) for text in quoted)
    for match in _LABEL.finditer(brief):
        for sentence in _SENTENCE.split(match[1].strip()):
            if _NEXT_LABEL.match(sentence):
                break
            text = sentence.strip('"“” ')
            if any(map(str.isalpha, text)) and not any(text in one or one in text for one in quoted):
                yield MandatoryLine("legal line", text)
    for sentence in _SENTENCE.split(brief):
        if _TERMS.search(sentence) and not _LABEL.search(sentence):
            yield MandatoryLine("legal line", sentence.strip())


def _contacts(brief: str) -> Iterator[MandatoryLine]:
    yield from (MandatoryLine("address", match[0].rstrip(".")) for match in _EMAIL.finditer(brief))
    for match in _ADDRESS.finditer(brief):
        text = match[0].rstrip(".")
        if text.rpartition(".")[2] not in _FILES:
            yield MandatoryLine("address", text)
    fewest, most = _PHONE_DIGITS
    for match in _PHONE.finditer(brief):
        text = match[0]
        other = _DATE.fullmatch(text) or _YEARS.fullmatch(text) or _PRICE.match(brief, match.start())
        if not other and fewest <= len(_digits(text)) <= most:
            yield MandatoryLine("phone number", text)
    for match in _SHORT_PHONE.finditer(brief):
        yield MandatoryLine("phone number", match[1] or match[2])


def _figures(brief: str) -> Iterator[MandatoryLine]:
    yield from (MandatoryLine("price", match[0].strip()) for match in _PRICE.finditer(brief))
    yield from (MandatoryLine("date", match[0]) for match in _DATE.finditer(brief))
    yield from (MandatoryLine("code", match[1]) for match in _CODE.finditer(brief))


@dataclass(frozen=True)
class _Speech:
    """A script as it may be compared."""

    text: str

    @cached_property
    def letters(self) -> str:
        """Letters and digits alone, without the words that read out signs."""
        words = re.findall(r"[^\W\d_]++|\d++", self.text.casefold())
        return "".join(word for word in words if word not in _CONNECTORS)

    @cached_property
    def tokens(self) -> list[str]:
        """Its words with English number words as digits."""
        return digit_tokens(self.text)

    @cached_property
    def letters_and_numbers(self) -> str:
        """As `letters`, with English number words as digits."""
        return "".join(token for token in self.tokens if token not in _CONNECTORS)

    @cached_property
    def digits(self) -> str:
        """Its digits in order, with a blank where more than a few words are between them."""
        parts, gap = [""], 0
        for token in self.tokens:
            if token[0].isdigit():
                parts += [" "] * (gap > _MAX_GAP) + [token]
                gap = 0
            else:
                gap += 1
        return "".join(parts)

    def has(self, line: MandatoryLine) -> bool:
        """Return whether a line is spoken, as far as its form shows."""
        match line.kind:
            case "legal line":
                return share(line.text, self.text) >= _MIN_SHARE
            case "address" | "code" | "exact words":
                return self._has_letters(line.text)
            case "date":
                return self._has_date(line.text)
            case _:
                return self._has_number(line.text) or (line.text[0] == "1" and self._has_letters(line.text))

    def _has_letters(self, text: str) -> bool:
        plain = _Speech(re.sub(r"^https?://|\bwww\.", "", text.casefold()))
        return plain.letters in self.letters or plain.letters_and_numbers in self.letters_and_numbers

    def _has_number(self, text: str) -> bool:
        digits = _digits(text)
        forms = {digits, digits[:-2]} if re.search(r"[.,]00\b", text) else {digits}
        if text.startswith("+"):
            # A number with its country's code may be spoken without it.
            forms.add(digits[4:])
        row = any(form in self.digits for form in forms if len(form) >= _MIN_DIGITS)
        return row or any(has_number(self.text, figure) for figure in forms if figure)

    def _has_date(self, text: str) -> bool:
        speech = self.text.casefold()
        numbers = [int(part) for part in re.findall(r"\d+", text)]
        month = next((at for at, name in enumerate(MONTHS, 1) if name[:3] in text.casefold()), 0)
        pairs = [(numbers[0], month)] if month else [(numbers[-1], numbers[-2]), (numbers[0], numbers[1])]
        pairs += [] if month else [(numbers[1], numbers[0])]
        return any(
            has_number(speech, str(day)) and _has_month(named, speech)
            for day, named in pairs
            if 1 <= named <= len(MONTHS)
        )


def _has_month(month: int, speech: str) -> bool:
    return MONTHS[month - 1][:3] in speech or has_number(speech, str(month))


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdigit())
