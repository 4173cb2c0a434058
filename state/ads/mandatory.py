"""Lines that a brief wants spoken: contacts, prices, dates, codes, legal lines; and those a script lacks.

Figures, addresses and codes are found by their form, legal lines by the marks that briefs give them. The
comparison is generous: a number may be spoken in digits or English words, an address letter by letter. Only
what is sure is missing; what may be background, or spoken in words that are not known, is to be checked.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, permutations
from typing import Final, Literal, NamedTuple

from callsheet.state.ads import marks
from callsheet.state.claims import share
from callsheet.state.figures import cardinal, digit_tokens, has_number
from callsheet.state.languages import detect
from callsheet.state.names import COMMON, WORD, folded_name, vocabulary
from callsheet.state.sentences import split_sentences

Kind = Literal[
    "client's name", "phone number", "address", "price", "offer", "date", "code", "legal line", "exact words"
]
_FIGURES: Final = frozenset({"price", "date", "code"})
MAX_LINES: Final = 20
"""Most lines of a text that are compared."""
_MAX_PARTS: Final = 100
"""Most contacts and quotations of a text that are looked at."""
_MAX_CHARS: Final = 400
"""Most characters of a legal line."""
_MIN_SHARE: Final = 0.7
"""Least share of a legal line's words that a script has."""
_MIN_DIGITS: Final = 3
"""Numbers with fewer digits are compared by value, not as a row of digits."""
_PHONE_DIGITS: Final = (7, 15)
_MAX_GAP: Final = 2
"""Most words between two parts of a number, as in "four dollars and ninety-nine cents"."""
_MOST_DAYS: Final = 31
_MOST_MONTHS: Final = 12
_CONNECTORS: Final = frozenset({"dot", "point", "slash", "dash", "hyphen", "at", "www", "http", "https"})
_NO_DOMAINS: Final = frozenset({"js", "py", "md", "ai", "ps", "ts"})
"""Ends of file names that are countries' domains, too."""
_VAGUE_AMOUNTS: Final = frozenset({"half", "quarter", "third", "double", "free", "dozen", "grand"})
_NONE: Final = re.compile(
    r"(?:none|n/?a|tb[acd]|nothing|nil|no|not applicable|no legal \w+|no disclaimer)"
    r"(?: (?:required|needed|necessary|yet))?\W*",
    re.IGNORECASE,
)
_INSTRUCTION: Final = re.compile(
    r"(?:please )?(?:add|avoid|begin|close|do|don[’']t|end|feature|finish|include|insert|keep|make|mention"
    r"|name|never|place|play|put|read|repeat|say|see|show|speak|start|state|tell|use|we)\b",
    re.IGNORECASE,
)
_LEGAL_LABELS: Final = frozenset(label for labels in marks.LEGAL.values() for label in labels.split(", "))
_WISH_LABELS: Final = frozenset(marks.WISHES.split(", "))
_LABEL_END: Final = re.compile(r"[:：]| [-–—] ")
_NEXT_LABEL: Final = re.compile(r"\w{1,20}(?: \w{1,20}){0,3}: ")
_BULLET: Final = re.compile(r"^[-–—•*]\s*")
_ASIDE: Final = re.compile(r"\([^()\n]{0,60}\)")
_VERBATIM: Final = re.compile(
    r"\b(?:must say|must include|must mention|must be said|verbatim|word for word|say exactly|disclaimer)\b"
    r"[^\"“\n]{0,60}[\"“]([^\"”\n]{3,400})[\"”]",
    re.IGNORECASE,
)
_TERMS: Final = re.compile(r"(?<!\w)(?:t&cs?|terms(?: (?:and|&) conditions)?) apply\b", re.IGNORECASE)

_OFFER: Final = re.compile(
    r"\b(?:buy one,? get (?:one|another)(?: free)?|two for (?:the price of )?one|half[- ]price"
    r"|free (?:delivery|shipping|trial|consultation|installation|parking|entry))\b",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(
    r"(?<![A-Za-z0-9_@.-])(?:https?://)?[A-Za-z0-9][\w-]{0,62}(?:\.[\w-]{1,63}){0,4}\.[a-z]{2,24}(?![A-Za-z0-9_@-])"
    r"(?:/[^\s,;)\"”]{0,200})?"
)
_SURE_HOST: Final = re.compile(
    r"^www\.|\.(?:(?:com|co|org|net)(?:\.[a-z]{2})?|info|biz|io|app|shop|store|example)$"
)
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_PHONE: Final = re.compile(
    r"(?<![A-Za-z0-9,/+(-])(?<!\d[.:])[+(]{0,2}\d(?:(?:[ ()/-]{1,3}|\.(?=\d\d))?\d){6,14}"
    r"(?![A-Za-z0-9]|[.,]\d)"
)
_SHORT_PHONE: Final = re.compile(
    rf"\b(?:{marks.CALLS})\b\.?:? {{1,3}}(\d[\d -]{{1,20}}\d)(?![\w-])|(?<!\w)(1-8\d\d-[A-Z0-9-]{{4,14}})",
    re.IGNORECASE,
)
_SURE_PHONE: Final = re.compile(r"[+0(]|1[ -]?8\d\d")
_CALL: Final = re.compile(rf"\b(?:{marks.CALLS})\b", re.IGNORECASE)
_SIGN: Final = r"[$€£¥₹฿₫₽₺₩]"
_MONEY: Final = rf"(?:(?-i:{marks.CURRENCIES})|{marks.UNITS})"
_NUMBER: Final = r"\d++(?:[.,]\d++)*"
_PRICE: Final = re.compile(
    rf"(?:(?:(?<![A-Za-z])[A-Z]{{1,2}})?{_SIGN}|(?<![A-Za-z])(?-i:{marks.CURRENCIES})(?![A-Za-z])) ?{_NUMBER}"
    r"(?: ?(?:k|m|bn|thousand|million|billion)\b)?"
    rf"|(?<![\d.,]){_NUMBER}(?:,-)? ?(?:[%¢]|{_SIGN}|{_MONEY}(?![A-Za-zÀ-ž]))",
    re.IGNORECASE,
)
_PRICE_IN_WORDS: Final = re.compile(rf"\b(\d{{1,6}}) (?:{marks.UNITS})\b(?: \d{{1,2}}\b)?", re.IGNORECASE)
_SHARE: Final = re.compile(r"%|per ?cent|prozent", re.IGNORECASE)
_BEFORE_OFFER: Final = re.compile(r"\b(?:from|only|just|price[sd]?|costs?)\W{0,2}$", re.IGNORECASE)
_AFTER_OFFER: Final = re.compile(
    r"\s?(?:off\b|discount\b|an? (?:month|week|day|year|night)\b|per\b|each\b|/)", re.IGNORECASE
)
_OFFER_CHARS: Final = 12
"""Characters beside a price that show an offer."""
_CALL_CHARS: Final = 25
"""Characters before a phone number that show that one may call it."""
_MONTH_NUMBERS: Final = {
    **{name: at for names in marks.MONTHS.values() for at, name in enumerate(names.split(), 1)},
    **{name[:3]: at for at, name in enumerate(marks.MONTHS["english"].split(), 1)},
}
_ENGLISH_MONTHS: Final = "|".join(
    f"{name.title()}|{name[:3].title()}" for name in marks.MONTHS["english"].split()
)
_OTHER_MONTHS: Final = "|".join(
    name for language, names in marks.MONTHS.items() if language != "english" for name in names.split()
)
_DATE: Final = re.compile(
    r"(?<![\w./-])(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./](?:\d\d){1,2})(?!\w)"
    rf"|(?<!\w)\d{{1,2}}(?:st|nd|rd|th|er|º|\.)? (?:of |de )?(?:{_ENGLISH_MONTHS}|(?i:{_OTHER_MONTHS}))(?!\w)"
    rf"|(?<!\w)(?:{_ENGLISH_MONTHS})\.? \d{{1,2}}(?:st|nd|rd|th)?(?!\w)"
    r"|(?<!\d)\d{1,2}(?:[月월] ?| tháng )\d{1,2}(?!\d)[日号號일]?"
)
_CODE: Final = re.compile(
    rf"(?i:(?<!zip )(?<!post)(?<!post )(?<!area )(?:{marks.CODES}))"
    r"(?: [^\W\d_]{1,15}(?=[ :]))?(?:(?![A-Za-z])|(?<![A-Za-z]))[ :：]{0,2}\s{0,3}[\"'“‘„]?"
    r"([A-Z][A-Z0-9-]{2,19}|[A-Za-z]{1,18}\d[A-Za-z0-9-]{0,18}|\d[A-Z0-9-]{2,19})(?![A-Za-z0-9])"
)
_YEARS: Final = re.compile(r"\d{4} ?[-–/] ?\d{4}")
_PLURAL: Final = re.compile(r"(?:(?<=teen)|(?<=-one))s\b")
"""Ends of number words such as "over eighteens"."""


class MandatoryLine(NamedTuple):
    """Something that a brief wants spoken."""

    kind: Kind
    text: str
    """As the brief writes it."""
    is_sure: bool = True
    """False if it may be background, or a description of what is to be said."""

    def __str__(self) -> str:
        quoted = f"“{self.text}”" if self.kind in {"legal line", "exact words"} else self.text
        return f"{self.kind} {quoted}"


class Comparison(NamedTuple):
    """The lines of a brief that a script lacks."""

    missing: tuple[MandatoryLine, ...]
    check: tuple[MandatoryLine, ...]
    """Those that may be background, or spoken in words that are not known here."""


def name_line(client: str, script: str, previous: str | None) -> list[MandatoryLine]:
    """Return the client's name as a line, unless the `previous` script did without it.

    It is sure where the script is written in the same letters.
    """
    line = MandatoryLine("client's name", client, _is_latin(client) == _is_latin(script))
    is_due = bool(client) and (previous is None or _Speech(previous).has(line))
    return [line] if is_due else []


def _is_latin(text: str) -> bool:
    return any("a" <= char <= "z" for char in text.casefold())


def mandatory_lines(brief: str) -> list[MandatoryLine]:
    """Return what a brief wants spoken, in the order of kinds; at most `MAX_LINES`.

    A part of a quoted or legal line, an address or a phone number is not listed again.
    """
    contacts = [*islice(chain(_contacts(brief), _codes(brief)), _MAX_PARTS)]
    kept: dict[str, MandatoryLine] = {}
    for line in chain(_quoted_lines(brief), _legal_lines(brief, contacts), contacts, _figures(brief)):
        text = line.text.casefold()
        if not any(text in longer for longer, one in kept.items() if one.kind not in _FIGURES):
            kept.setdefault(text, line)
        if len(kept) == MAX_LINES:
            break
    return [*kept.values()]


def due_lines(earlier: str, request: str, previous: str | None) -> list[MandatoryLine]:
    """Return the lines that a turn's script is compared with.

    Those are the lines of the turn's request, and what the texts before it want and the `previous` script
    says: its gaps were told in their turn. None stands for no script. A person who names another value of a
    kind, or one that is spoken already, may want the change.
    """
    new, old = mandatory_lines(request), mandatory_lines(earlier)
    if previous is not None:
        speech = _Speech(previous)
        new = [line._replace(is_sure=line.is_sure and not speech.has(line)) for line in new]
        old = [line for line in old if speech.has(line)]
    kinds, texts = {line.kind for line in new}, {line.text.casefold() for line in new}
    old = [line for line in old if line.text.casefold() not in texts]
    return [*(line._replace(is_sure=line.is_sure and line.kind not in kinds) for line in old), *new]


def compare(lines: Sequence[MandatoryLine], script: str, language: str) -> Comparison:
    """Return the lines that a script in this language lacks, and those that are to be checked."""
    speech = _Speech(script)
    absent = [line for line in lines if not speech.has(line)]
    missing = tuple(line for line in absent if line.is_sure and _is_comparable(line, speech, language))
    return Comparison(missing, tuple(line for line in absent if line not in missing))


def _is_comparable(line: MandatoryLine, speech: "_Speech", language: str) -> bool:
    """Return False if the line may be there in words that are not known."""
    english = language == "english"
    if line.kind in {"legal line", "exact words"} and not english and _digits(line.text):
        return False
    match line.kind:
        case "exact words" | "client's name":
            return True
        case "legal line":
            return detect(line.text) in ({language, None} if english else {language})
        case "price":
            # "Half off" and "five grand" are prices, too.
            return english and not speech.has_amounts
        case _:
            return english


def _quoted_lines(brief: str) -> Iterator[MandatoryLine]:
    yield from (MandatoryLine("exact words", match[1].strip()) for match in _VERBATIM.finditer(brief))


def _legal_lines(brief: str, contacts: Sequence[MandatoryLine]) -> Iterator[MandatoryLine]:
    # The words around a contact are not its own: a script may say "ring" for "call".
    others = [*contacts, *islice(_quoted_lines(brief), _MAX_PARTS)]
    for line in _labelled_lines(brief):
        if len(line.text) <= _MAX_CHARS and not any(one.text in line.text for one in others):
            yield line
    yield from (MandatoryLine("legal line", match[0]) for match in _TERMS.finditer(brief))


def _labelled_lines(brief: str) -> Iterator[MandatoryLine]:
    """Yield the sentences behind a label, to the end of its paragraph or list."""
    label, is_filled = "", False
    for paragraph in filter(None, map(str.strip, brief.splitlines())):
        if is_filled and not _BULLET.match(paragraph):
            label = ""
        for sentence in split_sentences(_BULLET.sub("", paragraph, count=1)):
            head, *rest = _LABEL_END.split(sentence, maxsplit=1)
            # "Legal line, word for word:" is a legal line.
            name = " ".join(_ASIDE.sub("", head).partition(",")[0].strip("*_# ").casefold().split())
            text = sentence
            if name in _LEGAL_LABELS or name in _WISH_LABELS:
                label, is_filled, text = name, False, "".join(rest)
            elif _NEXT_LABEL.match(sentence):
                label = ""
            text = text.strip('"“”* ')
            is_filled = is_filled or bool(text)
            if label and any(map(str.isalnum, text)) and not _NONE.fullmatch(text):
                yield MandatoryLine("legal line", text, _is_sentence(text, label))


def _is_sentence(text: str, label: str) -> bool:
    """Return True for words to speak, False if they may describe them."""
    return not _INSTRUCTION.match(text) and (label in _LEGAL_LABELS or text[-1] in ".!?。")


def _contacts(brief: str) -> Iterator[MandatoryLine]:
    for match in _EMAIL.finditer(brief):
        yield MandatoryLine("address", match[0].rstrip("."), is_sure=False)
    for match in _ADDRESS.finditer(brief):
        text = match[0].rstrip(".")
        host = text.partition("://")[2] or text
        host = host.partition("/")[0].casefold()
        end = host.rpartition(".")[2]
        is_sure = bool(_SURE_HOST.search(host))
        if is_sure or "://" in text or (len(end) == 2 and end not in _NO_DOMAINS):  # noqa: PLR2004
            # A pasted link is often a reference.
            yield MandatoryLine("address", text, is_sure and "://" not in text)
    fewest, most = _PHONE_DIGITS
    for match in _PHONE.finditer(brief):
        text = match[0]
        other = _DATE.fullmatch(text) or _YEARS.fullmatch(text) or _PRICE.match(brief, match.start())
        if not other and fewest <= len(_digits(text)) <= most:
            before = brief[max(0, match.start() - _CALL_CHARS) : match.start()]
            yield MandatoryLine("phone number", text, bool(_SURE_PHONE.match(text) or _CALL.search(before)))
    for match in _SHORT_PHONE.finditer(brief):
        yield MandatoryLine("phone number", match[1] or match[2])


def _codes(brief: str) -> Iterator[MandatoryLine]:
    for match in _CODE.finditer(brief):
        yield MandatoryLine("code", match[1], bool(_digits(match[1])))


def _figures(brief: str) -> Iterator[MandatoryLine]:
    yield from (
        MandatoryLine("price", match[0].strip(), _is_offer(brief, match)) for match in _PRICE.finditer(brief)
    )
    # English number words as digits; a price in digits is listed already.
    in_digits = " ".join(digit_tokens(brief))
    for match in _PRICE_IN_WORDS.finditer(in_digits):
        if match[1] not in brief:
            yield MandatoryLine("price", match[0], _is_offer(in_digits, match))
    yield from (MandatoryLine("offer", match[0]) for match in _OFFER.finditer(brief))
    # A date may be spoken as a holiday, or as a day of the week.
    yield from (MandatoryLine("date", match[0], is_sure=False) for match in _DATE.finditer(brief))


def _is_offer(text: str, price: re.Match[str]) -> bool:
    before = text[max(0, price.start() - _OFFER_CHARS) : price.start()]
    is_price = _BEFORE_OFFER.search(before) and not _SHARE.search(price[0])
    return bool(_AFTER_OFFER.match(text, price.end()) or is_price)


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
        return digit_tokens(_PLURAL.sub("", self.text))

    @cached_property
    def letters_and_numbers(self) -> str:
        """As `letters`, with English number words as digits."""
        return "".join(token for token in self.tokens if token not in _CONNECTORS)

    @cached_property
    def evidence(self) -> str:
        """The text, and the text with English number words as digits, and with cardinals for ordinals."""
        cardinals = " ".join(cardinal(word) for word in self.text.casefold().split())
        return "\n".join((self.text, " ".join(self.tokens), cardinals))

    @cached_property
    def has_amounts(self) -> bool:
        """True if it may say any amount."""
        return any(token[0].isdigit() or token in _VAGUE_AMOUNTS for token in self.tokens)

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
            case "client's name":
                named = vocabulary(self.text)
                own = [folded_name(word) for word in WORD.findall(line.text) if word.casefold() not in COMMON]
                has_name = any(named.has_name(word, detect(self.text) or "") for word in own[:1])
                return has_name or self._has_letters(line.text)
            case "offer":
                return self._has_words(line.text)
            case "legal line":
                # English number words as digits; of other scripts, tokens may be parts of words.
                folded = " ".join(_Speech(line.text).tokens) if line.text.isascii() else line.text
                return self._has_words(line.text) or self._has_words(folded)
            case "address" | "code" | "exact words":
                return self._has_letters(line.text)
            case "date":
                return self._has_date(line.text)
            case _:
                return self._has_number(line.text) or (line.text[0] == "1" and self._has_letters(line.text))

    def _has_words(self, text: str) -> bool:
        """Return whether most words are spoken, apart from numbers that are."""
        rest = re.sub(r"\d++", lambda match: "" if self._has_number(match[0]) else match[0], text)
        return share(rest, self.evidence) >= _MIN_SHARE

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
        return row or any(self._has_figure(form) for form in forms if form)

    def _has_figure(self, figure: str) -> bool:
        return has_number(self.text, figure)

    def _has_date(self, text: str) -> bool:
        numbers = [int(part) for part in re.findall(r"\d+", text)]
        month = next((at for name, at in _MONTH_NUMBERS.items() if name in text.casefold()), 0)
        pairs = [(numbers[0], month)] if month else permutations(numbers, 2)
        return any(
            self._has_figure(str(day)) and self._has_month(named)
            for day, named in pairs
            if day <= _MOST_DAYS and 1 <= named <= _MOST_MONTHS
        )

    def _has_month(self, month: int) -> bool:
        speech = self.text.casefold()
        named = any(name in speech for name, at in _MONTH_NUMBERS.items() if at == month)
        return named or self._has_figure(str(month))


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdigit())
