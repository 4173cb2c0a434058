"""The clauses of a brief, sorted: what is said of the client, an offer, a wish, a must or a must-not."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from providers.offline.ad_creation.facts import TOPICS, WEEKDAYS, Offer, When, hours, offers, when
from providers.offline.ad_creation.kinds import UNKNOWN, kind
from providers.offline.ad_creation.wishes import wishes
from providers.offline.ad_creation.wording import (
    CAPITAL,
    DATED,
    GOES_ON,
    GOOD_TO_KNOW,
    Mention,
    folded,
    found,
    has,
    mention,
    mentions,
    small_words,
)
from state.languages import find

GROUPS = ("families", "students", "professionals", "seniors", "young")
GAP = "\x00"
"""Stands where a phone number, an address or a slogan was taken out of the text."""
_GOES_ON = "\x01"
"""Marks a clause that a comma ties to the one before."""
_CLAIM_WORDS, _CLAIM_CHARS = 18, 160
_LISTED_WORDS = 6
"""Clauses this short between commas are a list; longer ones are one sentence."""
_SHORT_WISH = 5
"""A clause this short that speaks of voices or music is a wish, not a claim."""
_UNSPACED_MORE = 4
"""Characters of Thai or Chinese beside a day that are still only "until" or "on"."""
_LEFT_OVER = 3
"""A clause this short that lost its phone number or address says nothing by itself."""
_SHORT_SCENE = 8
"""A clause this short behind a wish for people who talk says who they are or what happens to them."""
_COMPOUND = 8
_AIMED = re.compile(r"(?:pour (?:les|des|nos)|für)\s")
_BANNED_CHARS = range(3, 41)
_SENTENCE = re.compile(
    r"\n+|(?<!\bDr\.)(?<!\bSt\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bNo\.)(?<!\bul\.)(?<!\bJl\.)(?<!\bNr\.)(?<!\bTel\.)(?<!tr\.)(?<!\bca\.)(?<!\binkl\.)(?<!\d\.)(?<=[.!?])\s+"
    rf"|(?<=\d\.)\s+(?!{DATED})(?=[" + CAPITAL + r"])"
    r"|(?:(?<=[.,]\d\d\.)|(?<=[$€£]\d\.)|(?<=[$€£]\d\d\.)|(?<=[$€£]\d\d\d\.))\s+"
    r"|[。！？；;•·]|(?<=\s)[-*–]\s"
)
_COMMA = re.compile(
    rf",\s+(?!{GOES_ON})|[，、]|\s[–—]\s|\s\|\s|(?<=[\u0e00-\u0e7f\x00])\s+(?=[\u0e00-\u0e7f])"
    r"|(?<=[\u3400-\u9fff])\s+(?=[\u3400-\u9fff])"
)
"""Thai sets its phrases apart with spaces, and Chinese at times."""
_THAI = re.compile(r"[\u0e00-\u0e7f]")
_FIGURES = re.compile(r"[\d月日号年到至截止\s]")
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3400-\u9fff]")
_VERBATIM = re.compile(
    r"\s*(?:please\s)?(?:say|end with|close with|start with|open with|must say|must include)\s?[:：\"“„«]",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"\s*(?:we|our|you|your|it|they|i|when|if|nasz\w*|nuestr\w+|noss\w+|kami|chúng tôi"
    r"|wir|unser\w*|du|deine?|ihr|sie|es|wenn|nous|notre|nos|vous|votre|on|il|elle|c'est|chez nous)\s",
    re.IGNORECASE,
)
"""A sentence that begins so is said whole, commas and all."""
_IT = re.compile(r"\b(?:it|this|them)\b")
_SAY = re.compile(r"say\s(?!that\b|the words?\b|[\"“„«:'])", re.IGNORECASE)
"""The beginning of "Say goodbye to stains", which is copy and no order."""
_DURATION = re.compile(
    r"^\W*(?:(?:dài|durasi(?:nya)?|ยาว|ความยาว|时长|thời lượng|cuma|chỉ|แค่|就|只要|just|only)\s?)*"
    r"(?:\d{1,3}\s?-?(?:s|sec|secs|seconds?|secondes?|segs?\.?|วินาที|วิ|detik|sekund\w*|segundos?|giây|vteřin\w*|secunde|秒)"
    r"|half a minute|setengah menit|nửa phút|ครึ่งนาที|半分钟|medio minuto|meio minuto|pół minuty|půl minuty"
    r"|jumătate de minut|eine halbe minute|une demi-minute).{0,12}$"
)
_QUOTED = re.compile(r"[\"“„«]([^\"”“»\n]{2,160})[\"”“»]")
_LEAD_IN = re.compile(
    r"^(?:(?:we(?:'re| are)? (?:now )?(?:offer(?:ing)?|hav(?:e|ing)|giv(?:e|ing))|there(?:'s| is)|get|enjoy"
    r"|offer|promo(?:tion)?|special(?: offer)?|deal|discount|price|plus|and|also|now|use(?: code)?(?: for)?"
    r"|jetzt(?: neu)?|aktion|sonderangebot|angebot|es gibt|wir bieten|außerdem"
    r"|en ce moment|actuellement|offre(?: spéciale)?|profitez de|il y a|nous offrons|et aussi"
    r"|for)\b\s?[:：-]?\s*)+",
    re.IGNORECASE,
)
_THAT = re.compile(
    r"^(?:that|the fact that|our|about|also|an?|the|is|el|la|los|las|o|os|as|:|：|że|que|qu'|că|že"
    r"|rằng|bahwa|ว่า|要|说)\s?",
    re.IGNORECASE,
)
_NO_TOPIC = re.compile(
    r"^(?:no|without|bez|sin|sem|tanpa|fără|không|keine?n?|ohne|pas de|pas d'|sans|aucune?|不要|ไม่)\s?"
)
_WORD = re.compile(
    r"^\s*(?:an?\s|the\s|la\s|el\s|a\s|o\s|das\s|die\s|les?\s)?(?:words?|wort|wörter|worte|mots?|phrases?|słów|słowa|palabras?|palavras?|kata|từ|slova?|slovo|cuvântul"
    r"|cuvintele|คำว่า|คำ|词语?|字)\s*|这(?:个|些)(?:词|字)$",
    re.IGNORECASE,
)
"""What stands between "don't use" and the word that is meant."""
_OR = re.compile(
    r",|\bor\b|\band\b|\blub\b|\bani\b|\by\b|\bo\b|\boder\b|\bund\b|\bou\b|\bet\b|\bnebo\b|\bsau\b|，|、"
)
_WAY = re.compile(
    r"(?:^|\s)(?:call|visit|visit us|find us|at|on|us|our|website|web|phone|tel|telephone|mobile|whatsapp"
    r"|line|order|code|with|use|using|online|and|or|open|from|in|email|write to|follow|daily|every day"
    r"|reservations?|bookings?|info|contact|for|to|details|telefono|teléfono|telefone|ligue|llama\w*|llámanos|pide\w*|cita|reserva\w*|marque|agende|el|los|zap|ruft?|an|unter|auf|im|internet|telefon|webseite|infos?|mehr|mit|dem|oder|und|besuch\w*|uns|jetzt|bestell\w*|buch\w*|termine?|adresse|du|findest|alles|weitere|appelez|au|le|la|les|sur|tél|téléphone|site|réserv\w*|inscri\w*|infos?|et|rendez-vous|commande\w*|renseignements?|votre|notre|par|ou|contact\w*|avec|du|de)(?=\s|$|[.,:])"
)
_COURTESY = re.compile(
    r"(?:(?:many\s)?thanks?(?:\s(?:you|so much|a lot|a million|again|in advance|very much|all|guys|team))*"
    r"|cheers|(?:kind|best|warm)?\s?regards|(?:un\s)?saludos?"
    r"|(?:muchas\s|mil\s)?gracias(?:\s(?:de antemano|por todo))?"
    r"|(?:muito\s)?obrigad[oa](?:\sdesde já)?|valeu|abraços?|merci(?:\s(?:beaucoup|bien|d'avance|à vous))*"
    r"|cordialement|bonne journée|bien à vous"
    r"|(?:herzlichen\s|vielen\s|besten\s)?(?:danke|dank)(?:\s(?:schön|sehr|im voraus))*"
    r"|(?:z góry\s)?dzi[ęe]kuj[ęe](?:\s\w+)?|(?:wielkie\s)?dzi[ęe]ki"
    r"|d[íi]ky(?:\s(?:moc|předem))*|děkuj[iue]\w*(?:\s(?:moc|předem))*"
    r"|mul[țt]ume(?:sc|im)(?:\s(?:mult|frumos|anticipat))*|mersi)\W*"
)
"""Said to the makers before the end, and nothing to be said on air."""
_CLOCK = re.compile(r"\d\s?(?:am|pm|a\.m\.|p\.m\.|h\b|uhr|o'clock|horas)|\d[:h]\d\d")
_DANGLING = re.compile(
    r"\s(?:at|in|on|by|or|and|with|via|using|under|pod|en|em|tại|di|la|v|na|s|se|z|ze|con|com|cu|dengan|với|unter|auf|mit|bei|über|am|im|und|oder|zu|per|sur|au|à|avec|par|et|ou|chez|telefono|teléfono|telefone|tel|tél|téléphone|phone|kodem|kódem)$"
)


@dataclass
class Statements:
    """What the clauses of a brief have said so far."""

    claims: list[str] = field(default_factory=list)
    """What the client says about it."""
    offers: list[Offer] = field(default_factory=list)
    offer_words: list[str] = field(default_factory=list)
    """The clauses with the offers."""
    when: When | None = None
    hours: str = ""
    must: list[str] = field(default_factory=list)
    avoid: set[str] = field(default_factory=set)
    """Topics of `facts.TOPICS` to leave out."""
    avoid_words: list[str] = field(default_factory=list)
    """Words to leave out, folded."""
    makers: list[str] = field(default_factory=list)
    """What is said to the makers of the ad and not on air."""
    tied: bool = False
    """Whether a comma ties the clause at hand to the one before."""
    last: str = ""
    """What the clause before was: "offer", "avoid", "wish", "scene" (a wish for people who talk) or empty."""


def clauses(text: str) -> list[str]:
    """Return the clauses of a text: its sentences, and the items of a list between commas."""
    return [piece.removeprefix(_GOES_ON) for piece in _pieces(text)]


def _pieces(text: str) -> list[str]:
    pieces: list[str] = []
    for sentence in (part for part in _SENTENCE.split(text) if part):
        parts = [part.strip() for part in _COMMA.split(sentence) if part.strip()]
        listed = all(len(part.split()) <= _LISTED_WORDS for part in parts) and not _SUBJECT.match(sentence)
        if parts and not _VERBATIM.match(sentence) and (listed or any(_special(part) for part in parts)):
            pieces += [parts[0], *(_GOES_ON + part for part in parts[1:])]
        else:
            pieces.append(sentence)
    tidied = (piece.strip(" \t.,:;-–—*•") for piece in pieces)
    return [piece for piece in tidied if any(char.isalnum() for char in piece)]


def _special(part: str) -> bool:
    said = {hit.concept for hit in mentions("cues/briefs", part)}
    return bool(offers(part) or said & {"must", "avoid", "makers"})


def statements(texts: Sequence[str], brand: str) -> Statements:
    """Return what the clauses of `texts` say, in order. A clause that only names `brand` says nothing."""
    draft = Statements()
    for piece in (piece for text in texts for piece in _pieces(text)):
        clause = piece.removeprefix(_GOES_ON)
        told = _without_gap(clause) if GAP in clause else clause
        if told:
            draft.tied = piece.startswith(_GOES_ON)
            _sort(told, draft, brand)
    return draft


def _without_gap(clause: str) -> str:
    text = re.sub(rf"\s*(?:\b(?:na|pe|pod|auf|unter)\s)?\s*{GAP}+\s*", " ", clause).strip(" ,:;-–—")
    text = _DANGLING.sub("", text).rstrip(" ,:;")
    words = re.findall(r"\w+", _WAY.sub(" ", _WAY.sub(" ", folded(text))))
    return text if offers(text) or when(text) or len(words) > _LEFT_OVER else ""


def _sort(clause: str, draft: Statements, brand: str) -> None:
    avoid, must = mention("cues/briefs", "avoid", clause), mention("cues/briefs", "must", clause)
    must = None if must and _SAY.match(clause, must.start) else must
    goes_on_avoiding = draft.last == "avoid" and draft.tied and len(clause.split()) <= _LEFT_OVER
    if avoid:
        _leave_out(clause, clause[avoid.end :], draft)
        draft.last = "avoid"
    elif topics(clause) and (goes_on_avoiding or _NO_TOPIC.match(folded(clause))):
        draft.avoid |= topics(clause)
    elif must and _sound_at_an_end(clause, must):
        draft.makers.append(clause)
    elif must and (must.start <= len("please also ") or " " in clause[must.start : must.end]):
        _say(_THAT.sub("", clause[must.end :].strip(" ,:：")), draft)
    elif has("cues/briefs", "makers", clause) or _is_wish(clause) or _more_of_a_wish(clause, draft):
        scene = (draft.tied and draft.last == "scene") or _for_several(clause)
        draft.makers.append(clause)
        draft.last = "scene" if scene else "wish"
    else:
        _state(clause, draft, brand)


def _for_several(clause: str) -> bool:
    """Whether a wish is for several who speak: what follows may say who they are."""
    wish = wishes([clause])
    return wish.dialogue or (wish.voices or 1) > 1


def _more_of_a_wish(clause: str, draft: Statements) -> bool:
    """Whether a clause goes on with a wish: "male narrator, gravelly", "a dialogue, a vet and a nurse"."""
    if draft.last not in {"wish", "scene"} or not draft.tied or _UNSPACED.search(clause):
        return False
    scene = draft.last == "scene" and len(clause.split()) <= _SHORT_SCENE
    return " " not in clause or (scene and not (offers(clause) or when(clause)))


def _sound_at_an_end(clause: str, must: Mention) -> bool:
    """Whether "open with seagulls" wishes for a sound: a few words, no quote, no name and no topic."""
    rest = clause[must.end :].strip()
    short = 0 < len(rest.split()) <= _SOUND_WORDS and rest == rest.lower()
    return bool(
        short and _OPEN_OR_CLOSE.match(clause, must.start) and not topics(clause) and not offers(rest)
    )


_SOUND_WORDS = 4
_OPEN_OR_CLOSE = re.compile(r"(?:open|start|begin|close|end)\swith\s", re.IGNORECASE)


def topics(clause: str) -> set[str]:
    """Return the topics of `facts.TOPICS` that a clause names."""
    return {hit.concept for hit in mentions("cues/briefs", clause)} & TOPICS


def _is_wish(clause: str) -> bool:
    said = {hit.concept for hit in mentions("cues/briefs", clause)}
    voices = set(found("cues/voices", clause))
    if _NO_TOPIC.match(folded(clause)) and found("cues/tones", clause):
        return True
    if _NO_TOPIC.match(folded(clause)) and "manner" in said:
        return True
    if {"takes", "script"} & said and ("script" in said or found("cues/numbers", clause)):
        return True
    aimed = said & set(GROUPS) and _AIMED.match(folded(clause))
    if (
        aimed
        or said & {"dialogue", "no_music", "no_music_at_all", "no_effects"}
        or _DURATION.match(folded(clause))
    ):
        return True
    if "voice" in voices and voices & {"female", "male", "one", "two", "three", "four"}:
        return True
    return _weak_wish(clause, said, voices) or bool(find(clause)) or _bare_accent(clause)


def _weak_wish(clause: str, said: set[str], voices: set[str]) -> bool:
    count = len(clause.split())
    toned = _only_tones(clause) or bool(found("cues/music", clause))
    if ("makers_weak" in said or "voice" in voices) and count <= (2 if toned else 1) * _SHORT_WISH:
        return True
    if count <= _SHORT_WISH and _IT.search(folded(clause)) and found("cues/tones", clause):
        return True
    few = count <= _LEFT_OVER and kind(clause) is UNKNOWN
    return few and bool(toned or voices & {"female", "male", "two", "one"} or said & set(GROUPS))


def _only_tones(clause: str) -> bool:
    """Whether a clause is all words for a tone: "warm but professional" is, "eco-friendly shoes" is not."""
    hits = mentions("cues/tones", clause)
    kept = list(folded(clause))
    for hit in hits:
        kept[hit.start : hit.end] = " " * (hit.end - hit.start)
    rest = re.findall(r"\w+", "".join(kept))
    return bool(hits) and all(word in small_words("tones") for word in rest)


def _bare_accent(clause: str) -> bool:
    return len(clause.split()) == 1 and bool(wishes([clause]).accent)


def _leave_out(clause: str, rest: str, draft: Statements) -> None:
    named = topics(rest) or topics(clause)
    draft.avoid |= named
    quoted = _QUOTED.findall(rest)
    if quoted or not named:
        words = [folded(word).strip(" .\"'") for word in quoted or _OR.split(_WORD.sub("", rest))]
        draft.avoid_words += [
            word for word in words if len(word) * (2 if _UNSPACED.search(word) else 1) in _BANNED_CHARS
        ]


def _say(rest: str, draft: Statements) -> None:
    quoted = _QUOTED.search(rest)
    text = (quoted.group(1) if quoted else rest).strip(" .,:;\"'“”„")
    text = GOOD_TO_KNOW + text if text.startswith("dass ") else text
    draft.last = ""
    if not text or (topics(text) and len(text.split()) <= _LEFT_OVER and not offers(text)):
        return
    if offers(text):
        _offer(text, offers(text), draft)
    else:
        draft.must.append(text)


def _state(clause: str, draft: Statements, brand: str) -> None:
    deals, day = offers(clause), when(clause)
    after_offer, dated = draft.tied and draft.last == "offer", draft.tied and draft.last == "dated"
    draft.last = ""
    draft.when = draft.when or (None if hours(clause) else day)
    news = draft.when != day or _tells_more(clause) or _CLOCK.search(folded(clause))
    if deals:
        _offer(clause, deals, draft)
    elif after_offer and day and not _tells_more(clause):
        draft.offer_words[-1] += _link(clause) + clause
    elif dated and day and day.unit == "date" and not _tells_more(clause):
        draft.claims[-1] += _link(clause) + clause
        draft.when = day
    elif hours(clause):
        draft.hours = hours(clause)
    elif (not day or news) and _sayable(clause) and folded(clause) != folded(brand):
        draft.claims.append(clause)
        draft.last = "dated" if day and day.unit in WEEKDAYS else ""


def _link(clause: str) -> str:
    if not _UNSPACED.search(clause):
        return ", "
    return " " if _THAI.search(clause) else "，"


def _offer(clause: str, deals: Sequence[Offer], draft: Statements) -> None:
    draft.offers += deals
    draft.offer_words.append(_LEAD_IN.sub("", clause) or clause)
    draft.when = draft.when or when(clause)
    draft.last = "offer"


def _sayable(clause: str) -> bool:
    if _COURTESY.fullmatch(folded(clause)):
        return False
    letters = sum(char.isalpha() for char in clause)
    return letters > 1 and len(clause.split()) <= _CLAIM_WORDS and len(clause) <= _CLAIM_CHARS


def _tells_more(clause: str) -> bool:
    """Whether a clause with a day in it says more than the day."""
    if _UNSPACED.search(clause):
        dated_chars = sum(hit.end - hit.start for hit in mentions("cues/dates", clause))
        return len(_FIGURES.sub("", clause)) - dated_chars > _UNSPACED_MORE
    words = [word for word in re.findall(r"\w+", folded(clause)) if not word.isdigit()]
    hits = mentions("cues/dates", clause)
    dated = {word for hit in hits for word in re.findall(r"\w+", folded(clause[hit.start : hit.end]))}
    telling = [word for word in words if word not in dated and word not in small_words("dates")]
    # A German compound is a noun and what it is: "samstags Livemusik".
    return len(telling) > 1 or any(
        len(word) >= _COMPOUND and f" {word.title()}" in clause for word in telling
    )
