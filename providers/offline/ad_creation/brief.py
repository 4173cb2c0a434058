"""A client's brief, read: who it is for, what it says, what it wishes. Nothing is added that was not said."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from providers.offline.ad_creation.conversation import DEFAULT_SPOT_S, Template, template
from providers.offline.ad_creation.facts import Contact, Offer, Span, When, contact, script, slogan, when
from providers.offline.ad_creation.kinds import UNKNOWN, Kind, is_kind, kind
from providers.offline.ad_creation.naming import name, what
from providers.offline.ad_creation.statements import GAP, GROUPS, clauses, statements
from providers.offline.ad_creation.tongue import spoken
from providers.offline.ad_creation.wishes import Wishes, wishes
from providers.offline.ad_creation.wording import CAPITAL, clean, folded, found, mentions
from state.languages import find

READ_CHARS = 4000
"""How much of each field of a very long brief is read; the last word on the draft says so."""
_MARKET_CHARS = 80
_OWN_TEXTS = 3
_TOWN = re.compile(
    r"(?:(?:in|at|near|en|em|ở|tại|di|în|im|am|bei|aus|à|près de)\s)?((?:[" + CAPITAL + r"][\w'’-]+\s?){1,3})"
)
"""A capitalised word or two after the name say where it is."""
_LOCAL = re.compile(
    r"(?:[Ii]n|[Aa]t|[Nn]ear|[Ee]n|[Ee]m|[ởỞ]|[Tt]ại|[Dd]i|[îÎ]n|[WwVv]e?"
    r"|[Ii]m|[Aa]m|[Bb]ei|[Aa]us|[Àà]|[Dd]ans le|[Pp]rès de)\s(?:[" + CAPITAL + r"][\w'’-]+\s?){1,3}"
)
"""A clause that only says where it is."""
_FIRST = re.compile(r"[,，、:：;|\n–—-]")
_GREETING = re.compile(
    r"\s*(?:hi|hello|hey|hiya|good (?:morning|afternoon|evening)|dear (?:team|all)|hola|buenos días"
    r"|buenas(?:\s(?:tardes|noches))?"
    r"|guten (?:tag|morgen|abend)|hallo|servus|moin|grüß gott|liebes team|bonjour|bonsoir|coucou"
    r"|olá|oi|bom dia|boa tarde|boa noite"
    r"|cze[śs][ćc]|dzie[ńn] dobry|witam|witajcie|szanowni państwo|ahoj|dobr[ýy] den"
    r"|dobré ráno|zdrav[íi]m"
    r"|bun[ăa](?: ziua| seara| dimineața)?|salut(?:are)?|hej|siema|čau|nazdar|halo|hai|xin chào|chào bạn"
    r"|สวัสดี(?:ครับ|ค่ะ|คะ)?|您好|你好)"
    r"(?:\s(?:there|all|team|guys|everyone|zusammen|liebes team|à tous|à toutes et à tous))?"
    r"(?:\s?[,!.，！。]\s?|\s(?=(?:so\s)?(?:we|i|this|it|my|our)\b)|(?<=[\u0e00-\u9fff])\s?)(?:(?:so|ok|well)\s)?",
    re.IGNORECASE,
)
"""A greeting before the brief begins; "Hello Kitty" is none."""
_LENGTH_FIRST = re.compile(
    r"\s*(?:(?:just|only|cuma|chỉ|就|只要|แค่|ขอ)\s?)?\d{1,3}\s?-?(?:s|secs?|seconds?|detik|giây|วินาที|วิ|秒钟?)"
    r"(?:\s?(?:aja|saja|ya|deh|thôi|nhé|nha|only|please|ก็พอ|พอ|นะครับ|นะคะ|ครับ|ค่ะ|就好|就行|即可|吧)){0,3}"
    r"(?:\s?[.!,。，！]\s?|(?<=[\u0e00-\u0e7f])\s)",
    re.IGNORECASE,
)
"""The length and nothing else before the brief begins: "15 seconds please. …"."""
_WISHED = re.compile(
    r"\s*(?:(?:ช่วย|รบกวน|อยากให้|อยากได้|อยาก|ขอ|ต้องการ)\s?(?:ทำ|เขียน|แต่ง)?\s?"
    r"(?:สปอต|โฆษณา)(?:วิทยุ|เสียง)?(?:หน่อย)?\s?(?:ให้|สำหรับ|ของ)|โปรโมท|โปรโมต)\s?"
    r"|(?:我们?)?(?:想|要|请|麻烦)?(?:给|帮|为)(?=(?!我)[\u3400-\u9fff]{2,12}?(?:做|写|录|制作)[一个条支段则\d秒的]{0,6}"
    r"(?:电台|电梯|音频|广播)?广告)"
)
"""What a Thai or Chinese brief asks for before it says for whom."""
_NOUN = re.compile(r"(?:an?|the|un|una|uma|um|o|một|eine?|der|die|das|une|les?|la)\s")
_SUBJECT = re.compile(
    r"(?:we|our|it|they|i|you|your|wir|unsere?|es|ihr|sie|ich|du|deine?|nous|notre|nos|on|il|elle|ils|elles|vous|je)\s"
)
_AIMED = re.compile(
    r"\b(?:for|para|dla|untuk|pro|pentru|cho|für|pour)\s[^,.;\n]{3,40}|สำหรับ\S{2,30}|给\S{2,12}"
)
_NEGATED = re.compile(
    r"\b(?:no|not|not too|never|without|don't be|isn't|nie|bez|sin|sem|não|không|ne|není|fără|nu|jangan|tidak"
    r"|bukan|nicht|nicht zu|keine?n?|ohne|weniger|pas|sans|pas de|pas trop|moins|jamais)"
    r"\s(?:\w+\s)?$|(?:ไม่|不|别|不要)$"
)
_NEGATION_CHARS = 14


@dataclass(frozen=True)
class Brief:
    """What a brief says. Texts are the client's own words, cleaned of what cannot be spoken."""

    client: str
    audience: str
    context: str
    market: str
    language: str
    """The language the ad is asked for in ("thai")."""
    seconds: float
    tongue: str | None
    """The language the client writes in; None when a bare name does not tell."""
    brand: str
    """Empty when the brief names none."""
    kind: Kind
    what: str
    """What it is, in the client's words, without the brand; or empty."""
    claims: tuple[str, ...] = ()
    """What the client says about it, a clause each."""
    offers: tuple[Offer, ...] = ()
    offer_words: tuple[str, ...] = ()
    """The clauses that hold the offers."""
    when: When | None = None
    contact: Contact = field(default_factory=Contact)
    slogan: str = ""
    must: tuple[str, ...] = ()
    """What has to be said, without the "mention"."""
    avoid: frozenset[str] = frozenset()
    """Topics to leave out: price, discount, phone, web, address, deadline."""
    avoid_words: tuple[str, ...] = ()
    """Words to leave out, folded."""
    tone: str = ""
    """The tone asked for, or empty."""
    group: str = ""
    """families, students, professionals, seniors or young, or empty."""
    wishes: Wishes = field(default_factory=Wishes)
    script: str = ""
    """The script itself, when the client gives it word for word."""
    cut: bool = False
    """Whether the brief was longer than what is read."""


@lru_cache(maxsize=64)
def parse(text: str) -> Brief:
    """Return what the brief `text` says: the message of A52, or a person's free words."""
    return _read(template(text) or Template(text.strip(), "", _length(text), "", "english", ""))


def _length(text: str) -> float:
    match = re.search(r"(?<![\d.])(\d{1,3})\s?-?(?:s|sec|secs|seconds?)\b", folded(text[:READ_CHARS]))
    return float(match.group(1)) if match and int(match.group(1)) else DEFAULT_SPOT_S


def _read(fields: Template) -> Brief:
    client, context = (_opened(clean(one))[:READ_CHARS] for one in (fields.client, fields.context))
    audience = clean(fields.audience)[:READ_CHARS]
    whole = f"{client}\n{context}"
    given, line, facts = script(whole), slogan(whole), contact(whole)
    gaps = (*facts.spans, *([line[1]] if line else []), *([given[1]] if given else []))
    about, more = _masked(client, gaps, 0), _masked(context, gaps, len(client) + 1)
    tongue = spoken(f"{about}\n{more}\n{audience}")
    brand, rest = name(about, is_kind=is_kind(_FIRST.split(about)[0]), german=tongue == "german")
    said = statements((rest, more), brand)
    own, town = _own(rest, said.claims, brand, german=tongue == "german")
    local = [claim for claim in said.claims if _LOCAL.fullmatch(claim)]
    return Brief(
        client=client,
        audience=audience,
        context=context,
        market=clean(fields.market)[:_MARKET_CHARS],
        language=_language(fields.language),
        seconds=fields.seconds,
        tongue=tongue,
        brand=brand,
        kind=_trade(rest, brand, about, more, audience),
        what=own,
        claims=tuple(dict.fromkeys(claim for claim in said.claims if claim not in {own, town, *local})),
        offers=tuple(dict.fromkeys(said.offers)),
        offer_words=tuple(dict.fromkeys(said.offer_words)),
        when=said.when,
        contact=replace(facts, hours=said.hours, place=facts.place or _place(next(iter(local), town))),
        slogan=line[0] if line else "",
        must=tuple(dict.fromkeys(said.must)),
        avoid=frozenset(said.avoid),
        avoid_words=tuple(said.avoid_words),
        tone=_tone("\n".join([*said.makers, more])),
        group=_group(f"{audience}\n{more}\n{' '.join(_AIMED.findall(about))}"[:READ_CHARS]),
        wishes=wishes([*said.makers, *clauses(more)]),
        script=given[0] if given else "",
        cut=max(len(fields.client), len(fields.context)) > READ_CHARS,
    )


def _opened(text: str) -> str:
    """Return a text from where it says something: after a greeting, a length, what is wished for."""
    for opening in (_GREETING, _LENGTH_FIRST, _WISHED):
        begun = opening.match(text)
        text = text[begun.end() :] if begun else text
    return text


def _language(text: str) -> str:
    known = find(text)
    return known.name if known else text


def _masked(text: str, gaps: Sequence[Span], offset: int) -> str:
    kept = list(text)
    for gap in gaps:
        for position in range(max(0, gap.start - offset), min(len(kept), gap.end - offset)):
            kept[position] = GAP
    return "".join(kept)


def _own(rest: str, claims: Sequence[str], brand: str, *, german: bool) -> tuple[str, str]:
    """Return what the client says it is, or else the words that only say where it is."""
    own = what(rest)
    if own not in claims or _SUBJECT.match(folded(own)) or (brand and own.startswith(f"{brand} ")):
        return "", ""
    if when(own):
        return "", ""
    if kind(own) is not UNKNOWN or _NOUN.match(folded(own)):
        return own, ""
    # A German noun has the capital of a town.
    town = _LOCAL if german else _TOWN
    return "", own if brand and town.fullmatch(own) else ""


def _place(town: str) -> str:
    match = _TOWN.fullmatch(town)
    return match.group(1) if match else ""


def _tone(text: str) -> str:
    hits = mentions("cues/tones", text)
    before = {hit: folded(text[max(0, hit.start - _NEGATION_CHARS) : hit.start]) for hit in hits}
    return next((hit.concept for hit in hits if not _NEGATED.search(before[hit])), "")


def _trade(*texts: str) -> Kind:
    """Return what the client is, by what it says of itself for sure, else by the first hint anywhere."""
    kinds = [kind(text) if text else UNKNOWN for text in texts]
    own = [one for one in kinds[:_OWN_TEXTS] if one is not UNKNOWN]
    hints = [replace(one, sure=False) for one in kinds[_OWN_TEXTS:] if one is not UNKNOWN]
    return next((one for one in own if one.sure), next(iter([*own, *hints]), UNKNOWN))


def _group(text: str) -> str:
    said = [key for key in found("cues/briefs", text) if key in GROUPS]
    # "Young professionals" and "young families" are the second word, not the first.
    return next((key for key in said if key != "young"), said[0] if said else "")
