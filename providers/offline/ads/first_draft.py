"""A first draft: the client's own sentences in two voices, music by mood and effects by trade."""

import re
import tomllib
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from itertools import takewhile
from typing import Any, Final, NamedTuple

from callsheet.providers.offline.ads.ad import problems, report, write_calls
from callsheet.providers.offline.conversation import OfflineConversation, OfflineReply, PastTurn, PlannedCall
from callsheet.providers.offline.grammar import Form, has_negation
from callsheet.state.ads.ad import effect_list, track_list
from callsheet.state.ads.brief import UNKNOWN_LANGUAGE
from callsheet.state.ads.mandatory import mandatory_lines
from callsheet.state.ads.timeline import build_timeline
from callsheet.state.languages import LANGUAGES, detect
from callsheet.state.sentences import split_sentences

DATA: Final = tomllib.loads((files(__package__) / "data.toml").read_text(encoding="utf-8"))
"""Words that classify sentences, music and sounds by words of the brief, and stock phrases by language."""
_AD: Final = "(?:audio |radio )?(?:ad|spot|commercial)"
_SECONDS: Final = r"(?:\d{1,3}|ten|fifteen|twenty|thirty|sixty)(?: |-)?(?:s|secs?|seconds?)"
_SLOTS: Final = {"ad": rf"{_AD}|{_SECONDS}(?: {_AD})?", "brief": r"(?-i:[A-Z0-9À-ÞČĎŁŚŠŘŻŽ])[\s\S]*"}
BRIEFS: Final = (
    Form("brief.for", "[please ][(make|create|write|I need|I want) ][me ][(a|an) ]{ad} for {brief}",
         "30 seconds for Miel, a bakery in Lyon", _SLOTS),
    Form("brief.client", "{brief}", "Harbour Bikes rents e-bikes by the hour in Porto.", _SLOTS),
)  # fmt: skip
"""Messages that begin an ad; more sentences about the client may follow."""
STORY: Final = 4  # rank of a sentence that is neither obligatory nor an offer
_MESSAGE: Final = re.compile(
    r"Create an audio ad\.\nClient: (.*?)\nTarget Audience: .*?\nDuration: \S+\nMarket: [^\n]*\n"
    r"Language: ([^\n]*)\nAdditional context: (.*)",
    re.DOTALL,
)
"""Text of `callsheet.state.ads.brief.message`."""
_THAI_END: Final = re.compile(r"(?<!\d)\s+(?!\d)")  # a blank, but none beside a number
_MAY_END: Final = re.compile(r"(?<=\bMay\.)\s+(?=[A-Z])")  # after the month, which is no abbreviation
_CLAUSE_END: Final = re.compile(r"[,:;!?–-](?=\s|$)|\s–|\n")
_VERB: Final = re.compile(r"is|are|with|without|es|é|ist|est|jest|je|este|adalah|là|[a-z]{1,40}s|[^\w]")
"""Word after a name of one word; other sentences begin with a capital, too."""
_CONTACT: Final = re.compile(
    r"(?:\+|\b)\d[\d ()/-]{5,40}\d|\b[\w-]{1,60}(?:\.[\w-]{1,60}){0,4}\.[a-z]{2,}\b|"
    r"\d{1,9} (?:[A-Z]\w{1,40} ){1,6}(?:St|Street|Rd|Road|Ave|Avenue|Lane|Square|Quay|Way)\b"
)
_NO: Final = (
    r"\b(?:no|without|skip|omit|avoid|leave out|(?:do not|don.t|never) "
    r"(?:use|add|want|need|include|have|play))"
    r"(?:,| any| the| a| background| music| jingles?| sound| effects?| and| or| nor)*"
)
_VOICES_ALONE: Final = (
    r"\b(?:only|just) (?:the )?voices?\b|(?:\A|[.,;:–-] |\b(?:with|in) )(?:the )?voices? only\b"
)
"""Not in "a calm female voice only", which is about the voice."""
_ENDS: Final = (
    r"(?=[^\w\s]|\s*\Z|\s*\n|\s+(?:and|or|nor|but|please|at|in|on|for|with|behind|under|is|are|thanks)\b)"
)
_REFUSALS: Final = {
    part: re.compile(
        rf"{_NO} (?:{words})\b{_ENDS}|\b(?:{words}): (?:no|none)\b|{_VOICES_ALONE}", re.IGNORECASE
    )
    for part, words in (("music", "music"), ("sound effects", "sound effects?|effects|sounds|sfx"))
}
"""Parts of an ad that a brief may refuse; "no music experience needed" refuses none."""
_NO_BRIEF: Final = re.compile(
    r"^[^.!?\n]{0,200}\?|^[^,.:;!?\n]{1,60}(?: not|n['’]t| never| no longer)\b|"
    r"^[^.!?\n]{0,200}\b(?:delete|cancel|undo|forget)\b",
    re.IGNORECASE,
)
"""A first sentence that is a question, denies something of the client or takes something back."""
_BY_CLIENT: Final = re.compile(r"(?:We|Our|Your)(?: \S+){3}")
_EXACT: Final = re.compile(r"Must say\b[^“\n]{0,60}“([^”\n]{3,400})”")
_MAX_CHARS: Final = 400  # longer sentences are not spoken
_NO_NAME: Final = (
    "I am the offline demo model and found no client's name, so I made nothing: begin the brief with the "
    "name in capitals, as in “30 seconds for Miel, a bakery in Lyon”."
)
_DIRECTIONS: Final = "Not spoken, and not done unless it is about length, language, no music or no effects:"
_FOREIGN: Final = "I write English, and quote the brief in its own language:"
_STOCK: Final = "These are stock phrases of the offline demo; a language model would write it properly."
_ASKS: Final = re.compile(
    r"\A(?:is|are|can|could|would|should|do|does|may|will|what|how|which)\b[^.!]*\?$", re.IGNORECASE
)
"""A question to the model rather than to listeners."""
_MIN_OTHERS: Final = 2  # words beside the name that may be too few for a sentence
_MIN_EFFECTS_S: Final = 10.0  # shorter spots have no effects
EFFECT_S: Final = 1.5
_MAX_SENTENCES: Final = 100
_MAX_QUOTED_CHARS: Final = 500


@dataclass(frozen=True)
class DraftBasis:
    """The basis of a first draft."""

    client: str
    """Description of the client, with any additional context."""
    language: str
    spot_s: float

    @cached_property
    def name(self) -> str:
        """The words in capitals at the beginning, in Thai and Chinese the first word; or empty."""
        first, *_ = [*split_sentences(self.client, self.language.replace("thai", "english")), ""]
        words = _CLAUSE_END.split(first.rstrip("."), maxsplit=1)[0].split()
        name = [*takewhile(lambda word: word != word.casefold() or _has("links", word), words)]
        while name and _has("links", name[-1]):
            name.pop()
        others = words[len(name) :]
        # Any sentence begins with one word in capitals before a small one.
        named = len(name) > 1 or (name and (not others or _VERB.fullmatch(others[0])))
        if named and not _has("no_names", name[0]):
            return " ".join(name)
        word = re.split(r"[\s,，。、]", self.client.strip())[0][:40]
        return word if self.language in {"thai", "chinese"} else ""


def read_brief(conversation: OfflineConversation) -> DraftBasis | None:
    """Return the brief in the newest message, or None.

    A free message is a brief only until the conversation has made a version, and no question or complaint.
    """
    text = conversation.turn.text
    spot = re.search(r"^Spot: ([\d.]+) s,", conversation.state, re.MULTILINE)
    spot_s = float(spot[1]) if spot else 30.0
    if message := _MESSAGE.fullmatch(text):
        client, language, context = message.groups()
        # The server names no language where it did not recognize the brief's.
        language = "english" if language == UNKNOWN_LANGUAGE else language
        return DraftBasis(f"{_without_request(client)}\n{context.removeprefix('None')}", language, spot_s)
    has_versions = any(call.version for turn in conversation.turns[:-1] for call in turn.calls)
    is_later = has_versions or "Previous conversation summary:" in conversation.system
    if is_later or _NO_BRIEF.search(_without_request(text)):
        return None
    named = (each.name for each in LANGUAGES if re.search(rf"\bin {each.name}\b", text, re.IGNORECASE))
    return DraftBasis(_without_request(text), next(named, None) or detect(text) or "english", spot_s)


def sentences(text: str, language: str) -> list[str]:
    """Return the sentences of a text, as written."""
    parts = [piece for part in split_sentences(text, language) for piece in _MAY_END.split(part)]
    if language == "thai":
        parts = [phrase for part in parts for phrase in _THAI_END.split(part)]
    return [part.strip() for part in parts if part.strip()]


def rank(sentence: str) -> int:
    """Return 0 for a legal line, phone number or address, 3 for an offer or opening time, else `STORY`."""
    if _has("legal", sentence) or _CONTACT.search(sentence):
        return 0
    return 3 if _has("offers", sentence) or mandatory_lines(sentence) else STORY


def speech(sentence: str, brief: DraftBasis) -> str:
    """Return the words of a sentence that are meant to be spoken; empty if it may be a direction for the ad.

    "Mention the code BEE10" is an order to speak the code.
    """
    if exact := _EXACT.match(sentence):
        return exact[1]
    order = re.match(DATA["orders"], sentence, re.IGNORECASE)
    if order and not _has("manner", content := sentence[order.end() :]) and rank(content) < STORY:
        sentence = content[:1].upper() + content[1:]
    if len(sentence) > _MAX_CHARS or _has("directions", sentence) or _ASKS.match(sentence):
        return ""
    has_offer = rank(sentence) < STORY
    others = sentence.removeprefix(brief.name).lstrip(" :,–-").split()
    long = len(others) > _MIN_OTHERS or brief.language == "chinese"
    long |= len(others) == _MIN_OTHERS and bool(_VERB.fullmatch(others[0]))
    by_client = brief.language == "english" and bool(_BY_CLIENT.match(sentence))
    # "Miel, no drums" may be a wish.
    wish = has_negation(sentence) or _has("wishes", sentence)
    story = not wish and ((long and sentence.startswith(brief.name)) or by_client)
    return sentence if (has_offer or story) and detect(sentence) in {None, brief.language} else ""


def _without_request(text: str) -> str:
    """Return the text from the client's name on: "a 30-second ad for Miel, …" becomes "Miel, …"."""
    matches = (form.regex.fullmatch(text) for form in BRIEFS)
    return next((match["brief"] for match in matches if match), text)


def _has(words: str, text: str) -> bool:
    return bool(re.search(DATA[words], text, re.IGNORECASE))


class _Part(NamedTuple):
    """A sentence for one of two voices; while there is room, lower ranks are spoken first."""

    text: str
    rank: int
    voice: int


def draft(conversation: OfflineConversation, brief: DraftBasis) -> OfflineReply:
    """Return the search for voices, then the drafts, then the report."""
    turn = conversation.turn
    if not brief.name:
        return OfflineReply(_NO_NAME)
    if write_calls(turn):
        return OfflineReply(_report(brief, turn))
    searches = turn.calls_to("search_voices")
    voices = [voice["id"] for call in searches for voice in (call.result or {}).get("voices", ())]
    if searches and not voices:
        return OfflineReply(f"No voice of the catalogue speaks {brief.language.title()}, so I made nothing.")
    if voices:
        text, calls = "", _drafts(brief, voices)
    else:
        text = f"My plan: {brief.spot_s:g} seconds for {brief.name} in two voices. First I look for voices."
        calls = [PlannedCall("search_voices", {"language": brief.language, "count": 10})]
    callable_now = tuple(call for call in calls if call.name in conversation.tools)
    if not callable_now:
        return OfflineReply(f"I may not make a draft for {brief.name} now, so I made nothing.")
    return OfflineReply(text, callable_now)


def script(brief: DraftBasis) -> tuple[list[str], list[str]]:
    """Return the text of each voice, obligatory sentences first, and the sentences without room."""
    texts = {speech(each, brief): rank(each) for each in sentences(brief.client, brief.language)}
    copy = [text for text in texts if text]
    phrases = DATA.get(brief.language, {"openings": ["{brand}."], "closings": ["{brand}."]})
    solemn = _row(brief, "moods") == DATA["moods"][0][1:]
    pick = 0 if solemn else zlib.crc32(brief.name.encode())
    opening, closing = (known[pick % len(known)] for known in (phrases["openings"], phrases["closings"]))
    facts = [_Part(each, texts[each], 1) for each in copy[:_MAX_SENTENCES]]
    parts = [
        _Part(str(opening).format(brand=brief.name), 2, 0),
        *(part._replace(voice=0) for part in facts if part.rank == STORY),
        *(_Part(line, STORY + 1, 0) for line in phrases.get("lines", ())[:3] if not solemn),
        *(part for part in facts if part.rank < STORY),
        _Part(str(closing).format(brand=brief.name), 1, 1),
    ]
    effects = effect_list(_effects(brief), 2)
    chosen: set[_Part] = set()
    for part in sorted(parts, key=lambda each: each.rank):
        tracks = track_list([{"voiceId": "any", "text": text} for text in _texts(parts, {*chosen, part})])
        if build_timeline(tracks, effects, language=brief.language, spot_s=brief.spot_s)["fits"]:
            chosen.add(part)
    chosen_texts = {part.text for part in chosen}
    return _texts(parts, chosen) or [f"{brief.name}."], [each for each in copy if each not in chosen_texts]


def _texts(parts: Sequence[_Part], chosen: Collection[_Part]) -> list[str]:
    """Return the text of each voice; a voice with nothing to say is left out."""
    by_voice = [
        [_punctuate(each.text) for each in parts if each in chosen and each.voice == at] for at in (0, 1)
    ]
    return [" ".join(texts) for texts in by_voice if texts]


def _punctuate(sentence: str) -> str:
    return f"{sentence}." if sentence[-1].isalnum() and sentence[-1] < "\u0e00" else sentence


def _row(brief: DraftBasis, table: str) -> list[str]:
    """Return the first row of a table with words that occur in the brief; the last row always matches.

    "Nothing aggressive" asks for other music, so a row with words of a clause with a negation does not match.
    """
    clauses = re.split(r"[.,;!?\n]|\bbut\b", brief.client.casefold())
    wanted, unwanted = (
        ". ".join(clause for clause in clauses if has_negation(clause) == denied) for denied in (False, True)
    )
    rows: list[list[str]] = DATA[table]
    patterns = ((re.compile(rf"\b(?:{row[0]})\b"), row) for row in rows if row[0])
    matching = (row for words, row in patterns if words.search(wanted) and not words.search(unwanted))
    return next(matching, rows[-1])[1:]


def _refuses(brief: DraftBasis, part: str) -> bool:
    """Return true if the brief refuses a part, and does not deny that ("not without music")."""
    before = (brief.client[: match.start()] for match in _REFUSALS[part].finditer(brief.client))
    return any(not has_negation(re.split(r"[.,;:!?\n]|\b(?:and|but)\b", text)[-1]) for text in before)


def _effects(brief: DraftBasis) -> list[dict[str, Any]]:
    wanted = brief.spot_s >= _MIN_EFFECTS_S and not _refuses(brief, "sound effects")
    sounds = _row(brief, "trades") if wanted else []
    return [
        {"description": sound, "placement": {"type": place}, "duration": EFFECT_S}
        for sound, place in zip(sounds, ("start", "end"), strict=False)
    ]


def _drafts(brief: DraftBasis, voices: Sequence[str]) -> list[PlannedCall]:
    texts, _ = script(brief)
    tracks = [{"voiceId": voices[at % len(voices)], "text": text} for at, text in enumerate(texts)]
    prompt = f"{_row(brief, 'moods')[0]}, instrumental, room for a voice-over"
    calls = {
        "voices": PlannedCall("create_voice_draft", {"tracks": tracks}),
        "music": PlannedCall("create_music_draft", {"prompt": prompt}),
        "sound effects": PlannedCall("create_sfx_draft", {"prompts": _effects(brief)}),
    }
    return [call for part, call in calls.items() if part not in _REFUSALS or not _refuses(brief, part)]


def _report(brief: DraftBasis, turn: PastTurn) -> str:
    """Return the new versions, and the sentences of the brief that are not in the script."""
    lines = report(turn)
    if not any(call.version for _, call in write_calls(turn)):
        return "\n".join(lines)
    lines += [_STOCK] if brief.language != "english" else []
    refused = [part for part in _REFUSALS if _refuses(brief, part)]
    lines += [f"As the brief asks, the ad is without {' and '.join(refused)}."] if refused else []
    written = sentences(brief.client, brief.language)
    directions = [each for each in written if not speech(each, brief) and each.strip(" .!") != brief.name]
    left_out = script(brief)[1]
    mood = _row(brief, "moods")
    usual = mood if "music" in refused else DATA["moods"][-1][1:]
    for_music = [each for each in directions if usual != mood == _row(replace(brief, client=each), "moods")]
    undone = [each for each in directions if each not in for_music]
    exact = [match[1] for each in written if (match := _EXACT.match(each))]
    foreign = [each for each in exact if brief.language == "english" and re.search(r"[^\W\d_a-zA-Z]", each)]
    reasons = (_FOREIGN, "No room for", "Not spoken, and done in the music alone:", _DIRECTIONS)
    for reason, texts in zip(reasons, (foreign, left_out, for_music, undone), strict=True):
        if texts:
            lines.append(f"{reason} {', '.join(f'“{text}”' for text in texts)}"[:_MAX_QUOTED_CHARS])
    suggests = not problems(turn) and "music" not in refused
    return "\n".join([*lines, "Should I make the music calmer?"] if suggests else lines)
