"""Claims that the words of a statement make: names, values, months, and words for all, none and more.

Values of filters are known in English and by their own names. Words that count or compare are known in the
languages of the product, since a claim in another language is a claim all the same.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from callsheet.state.campaigns.evidence import PREFIX, SearchEvidence, Values, fold
from callsheet.state.languages import detect
from callsheet.state.names import MONTHS

_SPELLINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "channel": {
        "email": r"e-?mails?|e-?mailings?|newsletters?|correos?(?: electrónicos?)?|邮件|อีเมล",
        "direct_mail": r"direct[-_ ]mail(?:ing)?s?|letters|mailings|post(?:al)? mail|per post",
        "facebook": "facebook|脸书",
        "instagram": "instagram|insta",
        "twitter": "twitter|tweets?",
        "tiktok": "tiktok",
        "linkedin": "linkedin",
        "youtube": "youtube",
        "radio": "radio",
        "television": "television",
        "podcast": "podcasts?",
    },
    "sentiment": {
        "Aspirational": "aspirational",
        "Trust-Building": r"trust[- ]building",
        "Urgent": "urgent|urgency|dringend|urgentes?",
        "Playful": "playful|playfulness|verspielt",
        "Premium": "premium",
    },
    "visual_style": {
        "Lifestyle Photography": r"lifestyle photo\w*",
        "Minimalist Graphic": "minimalist(?: graphics?)?",
        "Illustration": "illustrat(?:ions?|ed)",
        "Product-Centric": r"product[- ]centric",
        "Text-Heavy": r"text[- ]heavy",
        "Abstract / Conceptual": r"abstract(?: / conceptual)?|conceptual",
    },
    "value_prop": {
        "No Fee / No Minimum": r"no[- ]fees?(?: / no minimum)?|no minimum",
        "Cash Back / Rewards": r"cash[- ]?back(?: / rewards)?|rewards",
        "Travel Benefits": r"travel(?: benefits)?",
        "High-Yield Savings": r"high[- ]yield savings|savings",
        "Credit Building": r"credit[- ]building",
        "Security / Fraud Protection": r"security(?: / fraud protection)?|fraud(?: protection)?",
    },
    "offer": {
        "without": (
            r"(?:without|no|lack(?:s|ing)?|ohne|sin|sans|kein|没有) (?:an? |any |ofertas?|angebote?"
            r"|offres?)?offers?|no offers?"
        ),
        "with": r"(?:with|has|have|includes?|carr(?:y|ies)) (?:an? )?offers?",
    },
}
NOT_ABLE: Final = re.compile(
    r"^(?!.*\b(?:but|however)\b).*\bi (?:am the|cannot|can['’]t|could not|couldn['’]t|do not|don['’]t"
    r"|did not|have no)\b",
    re.IGNORECASE | re.DOTALL,
)
"""A sentence that declines, whose names are no claims."""
ABOUT_MYSELF: Final = re.compile(
    r"^\W*(?:(?:yes|ok|okay|sure|of course|understood)\W+)?"
    r"i(?:['’]ll| will| look| search| keep| stay| only look)\b",
    re.IGNORECASE,
)
"""A sentence about how the next searches are made."""
UNSEEN: Final = re.compile(r"https?://\S+|“[^”]{0,300}”(?=, so I)")
"""Addresses, and a question that is repeated. Tags are shown as text, so they are read."""
_NOT: Final = re.compile(
    r"(?:\b(?:not|no|none|never|neither|without|except|excluding|outside|other than|elsewhere than"
    r"|rather than"
    r"|nicht|keine?[nrsm]?|ohne|außer|sin|ningun[ao]?|nunca|excepto|sans|aucune?|jamais|sauf|sem"
    r"|nenhuma?|nie|żadn\w+"
    r"|bez|bukan|tidak|tanpa|kecuali)\b|n[’']t\b|不|没有|无|ไม่|ยกเว้น)[^.,;:!?。，]{0,24}$",
    re.IGNORECASE,
)
ALL: Final = re.compile(
    r"\b(?:all|every|each|always|only|exclusively|entirely|everything|everyone|alle[nrs]?|jede[nrs]?|nur"
    r"|ausschließlich|immer|tod[ao]s?|cada|siempre|solo|sólo|solamente|únicamente|tout(?:e|es)?|tous"
    r"|chaque|seulement"
    r"|uniquement|apenas|somente|sempre|wszystk\w+|każd\w+|tylko|zawsze|semua|setiap|seluruh|hanya|selalu)\b"
    r"|所有|全部|都是|每个|只有|仅|ทั้งหมด|ทุก|เท่านั้น",
    re.IGNORECASE,
)
_IDIOMS: Final = re.compile(
    r"\b(?:in all|of all|across all|all in all|at all|above all|all (?:the )?year|all told|not only"
    r"|only (?=\d|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
    r"|once and for all)\b",
    re.IGNORECASE,
)
NONE: Final = re.compile(
    r"^\W*(?:none|nobody|nothing|never)\b|\b(?:none|neither|zero)\b"
    r"|\b(?:no|not one|not a single|never)\b(?=(?:\W+\w+){0,4}\W+(?:campaigns?|ads?|offers?|compan\w+"
    r"|brands?|match\w*"
    r"|results?|mentions?|says?|one|of them)\b)"
    r"|\b(?:niemand|nichts|keine?[nrsm]?|ningun[ao]?|nadie|nada|nunca|aucune?|personne|jamais"
    r"|nenhuma?|ninguém|żaden"
    r"|żadn\w+|nikt|nic|tidak ada|tak ada)\b|没有|无一|ไม่มี",
    re.IGNORECASE,
)
OFFER_TO_HELP: Final = re.compile(
    r"\b(?:i can(?:not|['’]t)?|i could|i will|i['’]ll|can i|shall i|should i|ask me|tell me|would you"
    r"|do you|you can|let me)\b",
    re.IGNORECASE,
)
"""A clause about what can be done, which claims nothing about the library."""
_CLAUSE_END: Final = re.compile(r"[:：,，;；](?!\d)")
_QUESTION: Final = re.compile(r"[?？]\s*$")
_PLAIN_NO: Final = re.compile(r"\bno (?:doubt|matter|problem|longer|more than)\b|^no,", re.IGNORECASE)
MAJORITY: Final = re.compile(
    r"\b(?:(?:more than|over) half|mehr als die Hälfte|plus de la moitié|más de la mitad|lion['’]s share"
    r"|mainly|chiefly|predominantly|primarily|largely|überwiegend|hauptsächlich|principalmente|surtout"
    r"|most of|most(?= (?:campaigns|are|ads|run))|mostly|majority|mehrheit|meisten|mayoría"
    r"|majorité|plupart"
    r"|maioria|większość|sebagian besar|kebanyakan)\b|大多数|大部分|ส่วนใหญ่",
    re.IGNORECASE,
)
LARGEST: Final = re.compile(
    r"\b(?:tops|dominates?|leads (?:with|the)|(?:comes?|came|is|are|ranks?) first|number one"
    r"|vor allen anderen|most (?:common|frequent|popular|used|often)|the most|largest|biggest|highest"
    r"|häufigste[nrs]?|meistgenutzt\w*"
    r"|más (?:común|frecuente|usado)|plus (?:courant|fréquent|utilisé)e?|mais (?:comum|usado"
    r"|frequente)|najczęst\w+"
    r"|najwięcej|paling (?:umum|sering|banyak)|terbanyak)\b|最多|最常见|มากที่สุด",
    re.IGNORECASE,
)
SMALLEST: Final = re.compile(
    r"\b(?:least (?:common|frequent|popular|used|often)|the (?:least|fewest)|fewest|smallest|rarest"
    r"|seltenste[nrs]?"
    r"|wenigsten|menos (?:común|frecuente|usado)|moins (?:courant|fréquent)|najmniej|najrzadsz\w+"
    r"|paling sedikit)\b"
    r"|最少|น้อยที่สุด",
    re.IGNORECASE,
)
MORE: Final = re.compile(
    r"\bmore\b.{0,40}\bthan\b|\b(?:outnumbers?|ahead of|exceeds?|beats?|twice"
    r"|(?:larger|bigger|higher)\b.{0,40}\bthan"
    r"|mehr.{0,40}\bals"
    r"|más.{0,40}\bque|plus de.{0,40}\bque|mais.{0,40}\bque|więcej.{0,40}\bniż|lebih banyak)\b"
    r"|比.{0,20}[多高]|มากกว่า",
    re.IGNORECASE,
)
LESS: Final = re.compile(
    r"\b(?:fewer|less|smaller|lower)\b.{0,40}\bthan\b|\bbehind\b|\b(?:weniger.{0,40}\bals|menos.{0,40}\bque"
    r"|moins.{0,40}\bque|mniej.{0,40}\bniż|lebih sedikit)\b|比.{0,20}[少低]|น้อยกว่า",
    re.IGNORECASE,
)
FRACTIONS: Final[Mapping[float, re.Pattern[str]]] = {
    50.0: re.compile(
        r"(?<!than )(?<!over )(?<!als die )(?<!de la )\b(?:half|hälfte|mitad|moitié|metade|połow[aęy]"
        r"|setengah|separuh)\b|一半|ครึ่ง",
        re.IGNORECASE,
    ),
    100 / 3: re.compile(r"\b(?:(?:a|one) third|drittel|tercio|tiers|terço)\b|三分之一", re.IGNORECASE),
    200 / 3: re.compile(r"\b(?:two[- ]thirds|zwei drittel|dos tercios|deux tiers)\b|三分之二", re.IGNORECASE),
    20.0: re.compile(r"\b(?:(?:a|one) fifth|fünftel|un quinto|un cinquième)\b|五分之一", re.IGNORECASE),
    10.0: re.compile(r"\b(?:(?:a|one) tenth|zehntel|un décimo|un dixième)\b|十分之一", re.IGNORECASE),
    25.0: re.compile(r"\b(?:(?:a|one) quarter|viertel|un cuarto|un quart)\b|四分之一", re.IGNORECASE),
    75.0: re.compile(
        r"\b(?:three[- ]quarters|drei viertel|tres cuartos|trois quarts)\b|四分之三", re.IGNORECASE
    ),
}
"""Words for shares, in percent."""
GOES_ON: Final = re.compile(
    r"^\W*(?:it|its|it['’]s|they|their|both|this|that|the (?:ad|campaign|offer|copy)|er|es|sein|ihre?|sie"
    r"|il|elle|son|sa|ses|ils|elles|su|sus|ella|ele|ela|seu|sua|jej|jego)\b"
    r"|^\s*(?:[-*•|]\s|\d{1,2}[.)]\s)"
    r"|^\W{0,6}[^\W\d_]{2,20}(?: [^\W\d_]{2,20})?\W{0,4}[:：]",
    re.IGNORECASE,
)
"""A statement about the subject before it: it begins with a pronoun or a label, or is an item of a list."""
IT: Final = re.compile(r"^\W*(?:it|its|it['’]s)\b", re.IGNORECASE)
THESE: Final = re.compile(
    r"^\W*(?:these|those|they|diese|sie|est[ao]s|ellos|ces|estes|te|ini)\b", re.IGNORECASE
)
DONE: Final = re.compile(
    r"\b(?:i|we)(?:['’]ve| have)? (?:just |now |also )?(?:saved|exported|deleted|removed|sent|emailed"
    r"|scheduled|imported"
    r"|updated|changed|created|uploaded|downloaded|added|renamed|published|launched|paused|stopped"
    r"|booked|shared)\b(?! nothing)"
    r"|^\W*(?:done|all done|all set|erledigt|hecho|listo|fait|c'est fait|feito|pronto|gotowe|selesai"
    r"|sudah selesai"
    r"|完成了|เสร็จแล้ว)\b"
    r"|^\W*(?:saved|exported|deleted|removed|sent|emailed|scheduled|imported|updated|renamed|published)\b"
    r"|\b(?:has|have|was|were) (?:now )?(?:been )?(?:saved|exported|deleted|removed|sent|emailed"
    r"|scheduled|imported|uploaded"
    r"|downloaded|renamed|published|launched|paused|booked)\b"
    r"|\b(?:he|ha sido|han sido|wurden? .{0,40}\b)(?: )?(?:guardad|exportad|borrad|eliminad|gelöscht"
    r"|exportiert|gespeichert)"
    r"|已(?:经)?(?:导出|删除|保存|发送)",
    re.IGNORECASE,
)
_GIFT: Final = re.compile(
    r"\b(free|complimentary|bonus|gifts?|discounts?|vouchers?|rebates?|giveaways?|giv(?:es?|ing) away"
    r"|waived?|gratis|kostenlose?[nrs]?"
    r"|(?:ver)?schenk(?:t|en)|geschenkt?|gratuit\w*|regal(?:o|a|an|amos)|cadeau"
    r"|offr(?:e|ent)(?= (?:une?|des)\b)|grátis|brinde|darmow\w+|prezent)\b|(免费|赠送|ฟรี|แถม)",
    re.IGNORECASE,
)
_GIVING: Final = re.compile(
    r"(?:^|\s{3}|\b(?:it|they|which|that|who|and|also|banks?|cards?|accounts?|ads?"
    r"|campaigns?)\s)(?:offers?|gives?|includes?|throws? in|comes? with|hands? out|adds?)\s([^.,;:!?]{1,80})",
    re.IGNORECASE,
)
"""A verb of giving after a subject, with what is given; names of companies are blanks."""
_AFTER_GIVEN: Final = re.compile(r"\b(?:to|for|with|when|on|in|of|by|as|at|from|if|and|or)\b", re.IGNORECASE)
_AFTER_GIFT: Final = 3
"""Words after a word for a gift that say what it is."""
_DATE: Final = re.compile(
    r"\b([12][0-9]{3})(?:-([0-9]{2})(?:-[0-9]{2})?)?\b(?![.,]?\d)(?! ?(?:campaigns|ads|%))"
)
_MONTH: Final = re.compile(
    rf"\b({'|'.join(MONTHS)}|{'|'.join(month[:3] for month in MONTHS)})\b\.?(?: (?:of )?([12][0-9]{{3}}))?",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"(?<![\w’'-])[A-ZÀ-Þ][\w’&-]*(?: (?:& )?[A-ZÀ-Þ][\w’&-]*)*")
_SUBJECT: Final = re.compile(
    r" (?:has|had|is|was|offers?|gives?|runs?|ran|does|did|promises?|promised|advertises?|pays?)\b"
)
_GERMAN: Final = re.compile(r"[äöüß]|\bKampagnen?\b")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True)
class Mention:
    """A value that a statement names."""

    dimension: str
    value: str
    """Folded."""
    start: int = -1
    """Its place in the text; -1 for one that a field declares."""
    is_negated: bool = False


def mask(text: str, parts: Iterable[str]) -> str:
    """Return the text with blanks in place of these parts, longest first, without regard to case."""
    for part in sorted({one for one in parts if one.strip()}, key=len, reverse=True):
        text = re.sub(
            rf"(?<!\w){re.escape(part)}(?!\w)", lambda match: " " * len(match[0]), text, flags=re.IGNORECASE
        )
    return text


def read_mentions(text: str, evidence: SearchEvidence) -> tuple[list[Mention], str]:
    """Return the values that a text names, and the text with blanks in their place."""
    mentions: list[Mention] = []
    for dimension, value, match in _matches(text, evidence):
        # A match that another one has covered is a part of it.
        if match[0].strip() and text[match.start() : match.end()] == match[0]:
            is_negated = bool(_NOT.search(text[: match.start()]))
            mentions.append(Mention(dimension, value, match.start(), is_negated))
            text = f"{text[: match.start()]}{' ' * len(match[0])}{text[match.end() :]}"
    return sorted(mentions, key=lambda one: one.start), text


def companies_in(text: str, evidence: SearchEvidence) -> frozenset[str]:
    """Return the companies that a text names by a name or a brand of theirs, folded."""
    return frozenset(company for company, _ in _company_matches(text, evidence))


def _company_matches(text: str, evidence: SearchEvidence) -> Iterator[tuple[str, re.Match[str]]]:
    for name in sorted(evidence.companies, key=len, reverse=True):
        spaced = r"\W+".join(map(re.escape, name.split()))
        pattern = rf"(?<!\w){spaced}(?!\w)"
        yield from ((evidence.companies[name], match) for match in re.finditer(pattern, text, re.IGNORECASE))


def _matches(text: str, evidence: SearchEvidence) -> Iterator[tuple[str, str, re.Match[str]]]:
    yield from (("company", company, match) for company, match in _company_matches(text, evidence))
    for match in _MONTH.finditer(text):
        if not match[0].startswith(("may", "mar ")):
            month = f"{[one[:3] for one in MONTHS].index(match[1][:3].lower()) + 1:02}"
            years = {match[2]} if match[2] else _years(evidence, month)
            yield from (("month", f"{year}-{month}", match) for year in sorted(years))
    yield from (("month", match[0][:7], match) for match in _DATE.finditer(text))
    for (dimension, value), spelled in _patterns(evidence).items():
        yield from ((dimension, value, match) for match in spelled.finditer(text))


def own_values(evidence: SearchEvidence) -> set[tuple[str, str]]:
    """Return the folded values of the filters, tables and campaigns of the evidence, with their dimension."""
    own = {
        (name, value)
        for one in evidence.sets
        for conditions in (one.included, one.excluded)
        for name, values in conditions.items()
        if name not in {"company", "month", "offer"}
        for value in values
    }
    own |= {("product", fold(one["primary_product"])) for one in evidence.campaigns.values()}
    return own | {
        ("value_prop", fold(prop)) for one in evidence.campaigns.values() for prop in one["key_value_props"]
    }


def _patterns(evidence: SearchEvidence) -> Mapping[tuple[str, str], re.Pattern[str]]:
    """Return the spellings of the known values and of those in the evidence, the longest names first.

    A value of the evidence that a known one is spelled like comes before it: `cash back` of a library.
    """
    spelled = {
        (name, value): r"[\W_]+".join(map(re.escape, value.split())) + "s?"
        for name, value in own_values(evidence)
    }
    known = {(name, fold(value)): text for name, each in _SPELLINGS.items() for value, text in each.items()}
    lengths = {key: len(text) for key, text in {**spelled, **known}.items()}
    for name, value in spelled.keys() - known.keys():
        alike = (key for key, text in known.items() if key[0] == name and _pattern(text).fullmatch(value))
        lengths[name, value] = max([lengths[name, value], *(lengths[key] + 1 for key in alike)])
    ordered = sorted({**spelled, **known}.items(), key=lambda one: (one[0][0] != "product", -lengths[one[0]]))
    return {key: _pattern(text) for key, text in ordered}


@lru_cache(maxsize=2_000)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?<![\w])(?:{text})(?![\w])" if text.isascii() else rf"(?<![a-z])(?:{text})(?![a-z])",
        re.IGNORECASE,
    )


def _years(evidence: SearchEvidence, month: str) -> set[str]:
    """Return the years of which the evidence has this month; of a month that it lacks no year."""
    months = {str(one["capture_date"])[:7] for one in evidence.campaigns.values()}
    months |= {value for one in evidence.rows for value in one.included.get("month", ())}
    months |= {day[:7] for one in evidence.results for day in one.set.days}
    return {one[:4] for one in months if one[4:] == f"-{month}"} or {"0000"}


def by_dimension(mentions: Iterable[Mention], *, negated: bool = False) -> Values:
    """Return the values of the mentions by dimension."""
    values: dict[str, frozenset[str]] = {}
    for one in mentions:
        if one.is_negated == negated:
            values[one.dimension] = values.get(one.dimension, frozenset()) | {one.value}
    return values


def clause_end(text: str, pattern: re.Pattern[str]) -> int:
    """Return the end of the clause in which the pattern matches; 0 where it matches nowhere.

    A colon or a comma ends a clause: what follows may be a claim.
    """
    match = pattern.search(text)
    end = _CLAUSE_END.search(text, match.end()) if match else None
    return end.start() if end else len(text) if match else 0


def clause_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of every clause: what stands between colons, commas and semicolons."""
    ends = [match.start() for match in _CLAUSE_END.finditer(text)]
    return [*zip([0, *ends], [*ends, len(text)], strict=True)]


def without_offer(text: str) -> str:
    """Return the text without a question, or the clause that says what can be done; both claim nothing."""
    if _QUESTION.search(text):
        return ""
    kept = [clause for clause in _CLAUSE_END.split(text) if not OFFER_TO_HELP.search(clause)]
    return ", ".join(kept)


def without_idioms(text: str) -> str:
    """Return the text without phrases whose all, only or no claims nothing."""
    return _PLAIN_NO.sub(" ", _IDIOMS.sub(" ", text))


def begins_nouns_with_capitals(text: str) -> bool:
    """Return whether a text is in German, whose capitals show no names."""
    return bool(_GERMAN.search(text)) or detect(text) == "german"


def unknown_names(text: str, known: frozenset[str]) -> list[str]:
    """Return names with capitals of which no word is among the known ones.

    At the beginning of a sentence a single capitalised word is a name if a verb in the singular follows.
    """
    names = []
    is_german = begins_nouns_with_capitals(text)
    for match in _NAME.finditer(text):
        words = [word for word in _WORD.findall(match[0]) if word[:PREFIX].casefold() not in known]
        begins = not text[: match.start()].strip() or text[: match.start()].rstrip()[-1] in '.!?:;–—|•\n"“('
        is_long = " " in match[0]
        is_name = (
            (is_long and not begins)
            if is_german
            else (is_long or not begins or _SUBJECT.match(text, match.end()))
        )
        if words and is_name:
            names.append(match[0])
    return names


def unknown_gifts(text: str, known: frozenset[str]) -> list[str]:
    """Return what is said to be free, a bonus or the like, and is not in the known words."""
    gifts = []
    for match in _GIFT.finditer(text):
        after = re.split(r"[.,;:!?]", text[match.end() :])[0]
        words = [word for word in _WORD.findall(after)[:_AFTER_GIFT] if word.casefold() not in _SMALL]
        if match[0][:PREFIX].casefold() not in known or any(
            word[:PREFIX].casefold() not in known for word in words
        ):
            gifts.append(" ".join([match[0], *words]))
    for match in _GIVING.finditer(text):
        if text[match.end() :].startswith("?"):
            continue  # "Which offers do you mean?"
        given = _WORD.findall(_AFTER_GIVEN.split(match[1])[0])
        words = [word for word in given if word.casefold() not in _SMALL | _GENERAL]
        if words and not any(word[:PREFIX].casefold() in known for word in words):
            gifts.append(" ".join(words))
    return gifts


_GENERAL_TEXT: Final = """
every each all many several some more customer customers people clients new kind kinds range variety mix
number choice sorts types different than up over least nearly almost about around roughly only just
"""
_GENERAL: Final = frozenset(_GENERAL_TEXT.split())
"""Words beside a gift that are none."""


_SMALL: Final = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "at",
        "by",
        "for",
        "from",
        "has",
        "have",
        "if",
        "in",
        "is",
        "it",
        "its",
        "of",
        "on",
        "or",
        "that",
        "the",
        "their",
        "they",
        "this",
        "to",
        "when",
        "with",
        "you",
        "your",
        "campaign",
        "campaigns",
        "offer",
        "offers",
        "ad",
        "ads",
    ]
)
