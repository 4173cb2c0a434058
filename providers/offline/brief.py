"""A client's brief, read: who it is for, what it says, what it wishes. Nothing is added that was not said."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from providers.offline.conversation import DEFAULT_SPOT_S, Template, template
from providers.offline.facts import Contact, Offer, Span, When, contact, offers, slogan, topics, when
from providers.offline.kinds import UNKNOWN, Kind, is_kind, kind
from providers.offline.naming import name, what
from providers.offline.tongue import spoken
from providers.offline.wishes import Wishes, wishes
from providers.offline.wording import clean, folded, found, has, mention, mentions
from state.languages import find

READ_CHARS = 4000
"""How much of a very long brief is read; the copywriter says so when there was more."""
_BENEFIT_WORDS = 18
_GROUPS = ("families", "students", "professionals", "seniors", "young")
_SENTENCE = re.compile(r"\n+|(?<=[.!?])\s+|[。！？；;•·]|(?<=\s)[-*–]\s")
_COMMA = re.compile(r",\s+|[，、]|\s[–—]\s|\s\|\s")
_DURATION = re.compile(
    r"^\W*\d{1,3}\s?-?(?:s|sec|secs|seconds?|วินาที|detik|sekund\w*|segundos?|giây|vteřin\w*|secunde|秒).{0,12}$"
)
_QUOTED = re.compile(r"[\"“„«]([^\"”“»\n]{2,160})[\"”“»]")
_LEAD_IN = re.compile(
    r"^(?:(?:we(?:'re| are)? (?:now )?(?:offer(?:ing)?|hav(?:e|ing)|giv(?:e|ing))|there(?:'s| is)|get|enjoy|offer|promo(?:tion)?|special(?: offer)?|deal|discount|price|plus|and|also|now|use(?: code)?(?: for)?)\b\s?[:：-]?\s*)+",
    re.IGNORECASE,
)
_TOWN = re.compile(r"[A-ZÀ-Ž][\w'’-]{2,20}")
"""One capitalised word after the name is where it is."""
_THAT = re.compile(
    r"^(?:that|the fact that|our|about|also|a|the|is|:|：|że|que|că|că|že|rằng|bahwa|ว่า|要|说)\s?",
    re.IGNORECASE,
)
_SHORT_WISH = 5
"""A clause this short that speaks of voices or music is a wish, not a claim."""
_LEFT_OVER = 3
"""A clause this short that lost its phone number or address says nothing by itself."""


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
    cut: bool = False
    """Whether the brief was longer than what is read."""


def parse(text: str) -> Brief:
    """Return what the brief `text` says: the message of A52, or a person's free words."""
    fields = template(text) or Template(text.strip(), "", _length(text), "", "english", "")
    return _parse(fields)


def _length(text: str) -> float:
    match = re.search(r"(?<![\d.])(\d{1,3})\s?-?(?:s|sec|secs|seconds?)\b", folded(text))
    return float(match.group(1)) if match and int(match.group(1)) else DEFAULT_SPOT_S


@dataclass
class _Draft:
    """What the clauses have given so far."""

    claims: list[str] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    offer_words: list[str] = field(default_factory=list)
    when: When | None = None
    must: list[str] = field(default_factory=list)
    avoid: set[str] = field(default_factory=set)
    avoid_words: list[str] = field(default_factory=list)
    makers: list[str] = field(default_factory=list)


def _parse(fields: Template) -> Brief:
    client, context = clean(fields.client)[:READ_CHARS], clean(fields.context)[:READ_CHARS]
    audience = clean(fields.audience)[:READ_CHARS]
    whole = f"{client}\n{context}"
    line = slogan(whole)
    facts = contact(whole)
    gaps = (*facts.spans, *([line[1]] if line else []))
    about, more = _masked(client, gaps, 0), _masked(context, gaps, len(client) + 1)
    first = re.split(r"[,，、:：;|\n–—-]", about)[0]
    brand, rest = name(about, is_kind=is_kind(first))
    draft = _sorted(_clauses(rest), _clauses(more), brand)
    trade = _trade(rest, brand, about, more, audience)
    own = what(rest)
    town = own if brand and _TOWN.fullmatch(own) and kind(own) is UNKNOWN else ""
    if town:
        own, facts = "", facts if facts.place else replace(facts, place=town)
        draft.claims = [claim for claim in draft.claims if claim != town]
    own = (
        own
        if own in draft.claims
        and kind(own) is not UNKNOWN
        or own in draft.claims
        and len(own.split()) > 1
        and _nounish(own)
        else ""
    )
    told = found("cues/tones", "\n".join([*draft.makers, more, *_short(about)]))
    return Brief(
        client=client,
        audience=audience,
        context=context,
        market=clean(fields.market)[:80],
        language=_language(fields.language),
        seconds=fields.seconds,
        tongue=spoken(f"{about}\n{more}\n{audience}"),
        brand=brand,
        kind=trade,
        what=own,
        claims=tuple(dict.fromkeys(claim for claim in draft.claims if claim != own)),
        offers=tuple(dict.fromkeys(draft.offers)),
        offer_words=tuple(dict.fromkeys(draft.offer_words)),
        when=draft.when,
        contact=facts,
        slogan=line[0] if line else "",
        must=tuple(dict.fromkeys(draft.must)),
        avoid=frozenset(draft.avoid),
        avoid_words=tuple(draft.avoid_words),
        tone=told[0] if told else "",
        group=_group(f"{audience}\n{more}\n{' '.join(_AIMED.findall(about))}"[:READ_CHARS]),
        wishes=wishes([*draft.makers, *_clauses(more)]),
        cut=max(len(fields.client), len(fields.context)) > READ_CHARS,
    )


def _trade(*texts: str) -> Kind:
    """Return what the client is by the first text that says it for sure, else by the first that hints at it."""
    kinds = [one for text in texts if text and (one := kind(text)) is not UNKNOWN]
    return next((one for one in kinds[:_OWN_TEXTS] if one.sure), kinds[0] if kinds else UNKNOWN)


_OWN_TEXTS = 3
_AIMED = re.compile(r"\b(?:for|para|dla|untuk|pro|pentru|cho)\s[^,.;\n]{3,40}|สำหรับ\S{2,30}|给\S{2,12}")


def _group(text: str) -> str:
    said = [key for key in found("cues/briefs", text) if key in _GROUPS]
    # "Young professionals" and "young families" are the second word, not the first.
    return next((key for key in said if key != "young"), said[0] if said else "")


def _language(text: str) -> str:
    known = find(text)
    return known.name if known else text


def _masked(text: str, gaps: Sequence[Span], offset: int) -> str:
    kept = list(text)
    for gap in gaps:
        for position in range(max(0, gap.start - offset), min(len(kept), gap.end - offset)):
            kept[position] = "\x00"
    return "".join(kept)


def _short(text: str) -> list[str]:
    return [clause for clause in _clauses(text) if len(clause.split()) <= _LEFT_OVER]


def _clauses(text: str) -> list[str]:
    pieces: list[str] = []
    for sentence in _SENTENCE.split(text):
        parts = [part for part in _COMMA.split(sentence or "") if part.strip()]
        listed = all(len(part.split()) <= len("one two three four five six".split()) for part in parts)
        pieces += parts if listed or any(_special(part) for part in parts) else [sentence]
    return [
        tidy for piece in pieces if (tidy := piece.strip(" \t.,:;-–—*•")) and any(c.isalnum() for c in tidy)
    ]


def _special(part: str) -> bool:
    said = {hit.concept for hit in mentions("cues/briefs", part)}
    return bool(offers(part) or said & {"must", "avoid", "makers"})


def _sorted(about: Sequence[str], more: Sequence[str], brand: str) -> _Draft:
    draft = _Draft()
    for clause in (*about, *more):
        if "\x00" in clause:
            clause = _without_gap(clause)
        if clause:
            _sort(clause, draft, brand)
    return draft


def _without_gap(clause: str) -> str:
    text = re.sub(r"\s*\x00+\s*", " ", clause).strip()
    text = re.sub(r"\s(?:at|in|on|by|or|and|with|via|using|under|pod|en|em|tại|di|la|v|na)$", "", text)
    cleaned = re.sub(
        r"(?:^|\s)(?:call|visit|at|on|us|our|website|web|phone|tel|order|code|with|use|using|online|and|or|open|from|in|email|write to|follow|daily|every day)(?=\s|$|[.,:])",
        " ",
        folded(text),
    )
    telling = offers(text) or when(text) or len(re.findall(r"\w+", cleaned)) > _LEFT_OVER
    return text if telling else ""


def _sort(clause: str, draft: _Draft, brand: str) -> None:
    low = folded(clause)
    avoid, must = mention("cues/briefs", "avoid", clause), mention("cues/briefs", "must", clause)
    if avoid:
        _leave_out(clause, clause[avoid.end :], draft)
    elif must and (must.start <= len("please also ") or " " in clause[must.start : must.end]):
        _say(_THAT.sub("", clause[must.end :].strip(" :：")), draft)
    elif re.match(r"^(?:no|without|bez|sin|sem|tanpa|fără|không|不要|ไม่)\s", low) and topics(clause) - {
        "competitors"
    }:
        draft.avoid |= topics(clause)
    elif has("cues/briefs", "makers", clause) or _is_wish(clause):
        draft.makers.append(clause)
    else:
        _state(clause, draft, brand)


def _is_wish(clause: str) -> bool:
    said = {hit.concept for hit in mentions("cues/briefs", clause)}
    if said & {"dialogue", "no_music", "no_music_at_all", "no_effects"} or _DURATION.match(folded(clause)):
        return True
    count = len(clause.split())
    toned = bool(found("cues/tones", clause) or found("cues/music", clause))
    weak = "makers_weak" in said or has("cues/voices", "voice", clause)
    if weak and (count <= _SHORT_WISH or (toned and count <= 2 * _SHORT_WISH)):
        return True
    few = count <= _LEFT_OVER and kind(clause) is UNKNOWN
    voiced = any(has("cues/voices", key, clause) for key in ("female", "male", "two", "one"))
    return bool((few and (toned or voiced or said & set(_GROUPS))) or find(clause) or _bare_accent(clause))


def _bare_accent(clause: str) -> bool:
    return bool(len(clause.split()) == 1 and wishes([clause]).accent)


def _leave_out(clause: str, rest: str, draft: _Draft) -> None:
    named = topics(rest) or topics(clause)
    draft.avoid |= named
    quoted = _QUOTED.findall(rest)
    if quoted or not named:
        words = quoted or re.split(
            r",|\bor\b|\band\b|\blub\b|\bani\b|\by\b|\bo\b|\bnebo\b|\bsau\b|，|、", rest
        )
        draft.avoid_words += [folded(word).strip(" .\"'") for word in words if 2 < len(word.strip()) <= 40]


def _say(rest: str, draft: _Draft) -> None:
    quoted = _QUOTED.search(rest)
    text = (quoted.group(1) if quoted else rest).replace("\x00", "").strip(" .,:;\"'“”")
    if not text or (topics(text) and len(text.split()) <= _LEFT_OVER and not offers(text)):
        return
    if offers(text):
        _state(text, draft, "")
    else:
        draft.must.append(text)


def _state(clause: str, draft: _Draft, brand: str) -> None:
    deals, day = offers(clause), when(clause)
    if day and draft.when is None:
        draft.when = day
    if deals:
        draft.offers += deals
        draft.offer_words.append(_LEAD_IN.sub("", clause) or clause)
    elif day and not _tells_more(clause):
        return
    elif sum(char.isalpha() for char in clause) < len("ab"):
        return
    elif folded(clause) != folded(brand) and len(clause.split()) <= _BENEFIT_WORDS and len(clause) <= 160:
        draft.claims.append(clause)


def _tells_more(clause: str) -> bool:
    """Whether a clause with a day in it says more than the day."""
    words = [word for word in re.findall(r"\w+", folded(clause)) if not word.isdigit()]
    dated = {
        text
        for hit in mentions("cues/dates", clause)
        for text in re.findall(r"\w+", clause[hit.start : hit.end].lower())
    }
    return len([word for word in words if word not in dated and word not in _DATE_WORDS]) > len(
        ("from", "now")
    )


_DATE_WORDS = frozenset(
    "the on in at of this next only every valid offer ends it is from and to th st nd rd el la los de w na v pe în do ngày".split()
)


def _nounish(text: str) -> bool:
    """Whether `text` reads as a name for something: an article or a small word within, no finite verb in sight."""
    low = folded(text)
    return bool(re.match(r"(?:an?|the|your|our|un|una|uma|um|o|một)\s", low))
