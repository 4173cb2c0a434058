"""Tasks of audio ads: the streams that change, the script, the cast, music, effects and length."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

from langchain_core.messages import AIMessage, HumanMessage

from callsheet.graphs import ad_creation
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state import languages
from callsheet.state.ads import ad, brief
from callsheet.state.ads.brief import Brief
from callsheet.state.ads.mandatory import compare, mandatory_lines
from callsheet.state.ads.timeline import Timeline
from callsheet.state.claims import Evidence, content, share, unproven_claims
from callsheet.state.figures import number
from callsheet.state.names import MONTHS
from callsheet.state.number_words import cardinal, digit_tokens
from callsheet.state.owners import LOCAL
from callsheet.state.versions import MODEL
from callsheet.storage.artefacts.artefacts import NewVersion, Stream
from callsheet.tools.ads import voices
from evals import turns
from evals.session import TaskSession
from evals.tasks import CASES, Task
from evals.turns import PlayedTurn, has_any, lacks, unless

FIELDS: Final = ("brief", "ad")
Shown = Mapping[str, Stream]
AdTurn = PlayedTurn[Shown]
_PROMISES: Final = (
    *("award-winning", "award winning", "guaranteed", "guarantee", "clinically", "proven", "certified"),
    *("number one", "best in", "the best", "cheapest", "fastest", "experts recommend", "scientists"),
    *("doctors recommend", "dentists recommend", "risk-free", "free of charge", "world-famous"),
)
"""Words of claims that an ad must be able to prove."""
_ORDINAL: Final = re.compile(r"(?:st|nd|rd|th)\W*$", re.IGNORECASE)


class AdSession(TaskSession[Shown]):
    """An ad, and the conversation about it."""

    workflow: ClassVar[WorkflowSpec[Any]] = ad_creation.WORKFLOW

    async def prepare(self) -> Mapping[str, Any]:
        """Give the case's brief, or an ad that was made from it."""
        given = self.task.given
        known = brief_of(self.task)
        shared = {"ad_id": self.artefact.id, "brief": known, "language": known["language"]}
        if "brief" in given:
            return shared
        made = turns.known(given["ad"], _ads())
        await self.artefact.open(owner=LOCAL, thread=self.thread, facts={})
        language = known["language"]
        tracks = ad.track_list(made["tracks"])
        data = {
            "voices": ad.voices_data(tracks, language),
            "music": ad.music_bed(made["music"], "loudly", known["duration"]),
            "sfx": {"soundFxPrompts": ad.effect_list(made["effects"], len(tracks))},
        }
        for stream, one in data.items():
            await self.artefact.create_version(NewVersion(stream, one, MODEL, "given"))
        said = [
            HumanMessage(brief.message(known)),
            AIMessage("Ready to review: voices v1, music v1, effects v1."),
        ]
        await self.graph.aupdate_state(self.config, {"messages": said, **shared}, as_node="summarizer")
        return {}

    async def look(self) -> Shown:
        """Return the streams as they are now."""
        return await self.artefact.streams(ad.STREAMS)


@cache
def _ads() -> Mapping[str, Any]:
    return dict(json.loads((CASES / "ad_creation_ads.json").read_text("utf-8")))


def brief_of(task: Task) -> Brief:
    """Return the brief of a task."""
    body = task.given.get("brief") or turns.known(task.given["ad"], _ads())
    return brief.parse(body["brief"], language=body.get("language"), market=body.get("market"))


def _brief_text(turn: AdTurn) -> str:
    return "\n".join([brief.message(brief_of(turn.task)), *turn.said])


def _data(side: Shown, name: str) -> Mapping[str, Any]:
    newest = side[name].newest()
    return newest.data if newest else {}


def _tracks(side: Shown) -> Sequence[Mapping[str, Any]]:
    tracks: Sequence[Mapping[str, Any]] = _data(side, "voices").get("voiceTracks", ())
    return tracks


def _effects(side: Shown) -> Sequence[Mapping[str, Any]]:
    effects: Sequence[Mapping[str, Any]] = _data(side, "sfx").get("soundFxPrompts", ())
    return effects


def _music(side: Shown) -> str:
    return str(_data(side, "music").get("musicPrompt", ""))


def _script(side: Shown) -> str:
    return "\n".join(str(track["text"]) for track in _tracks(side))


def _language(turn: AdTurn) -> str:
    return str(_data(turn.after, "voices").get("language") or brief_of(turn.task)["language"])


def _timeline(turn: AdTurn, side: Shown) -> Timeline:
    data: dict[str, Mapping[str, Any]] = {name: _data(side, name) for name in ad.STREAMS if _data(side, name)}
    return ad.timeline(data, language=_language(turn), spot_s=brief_of(turn.task)["duration"])


def _spoken(text: str) -> str:
    """Return a text as it is spoken, with numbers as digits."""
    words = (cardinal(word) if _ORDINAL.search(word) else word for word in text.replace("&", " and ").split())
    return " ".join(digit_tokens(" ".join(words)))


def _says(script: str, wanted: str) -> bool:
    """Return whether a script says something, in figures or in words."""
    digits = "".join(char for char in wanted if char.isdigit())
    rows = "".join(char for char in _spoken(script) if char.isdigit())
    return (
        not lacks(script, wanted)
        or _spoken(wanted) in _spoken(script)
        or (len(digits) > 3 and digits in rows)
    )


def changed(wanted: Sequence[str], turn: AdTurn) -> str:
    """Compare the streams that changed; every other one is the same to the byte."""
    new = {name for name in ad.STREAMS if _data(turn.before, name) != _data(turn.after, name)}
    allowed = {*wanted, *turn.expect.get("may_change", ())}
    return unless({*wanted} <= new <= allowed, f"changed {sorted(new) or 'nothing'}")


def may_change(wanted: Sequence[str], turn: AdTurn) -> str:
    """Widen `changed`."""
    return unless(
        "changed" in turn.expect and {*wanted} <= {*ad.STREAMS}, "needs `changed` and known streams"
    )


def versions_created(wanted: Mapping[str, int], turn: AdTurn) -> str:
    """Count the new versions."""
    made = {name: len(turn.after[name].versions) - len(turn.before[name].versions) for name in wanted}
    return unless(made == {**wanted}, f"made {made}")


def equals_version(wanted: Mapping[str, str], turn: AdTurn) -> str:
    """Compare streams with an earlier version of them."""
    for name, version in wanted.items():
        earlier = turn.after[name].find(version)
        if earlier is None or earlier.data != _data(turn.after, name):
            return f"{name} differs from {version}"
    return ""


def fits(wanted: bool, turn: AdTurn) -> str:
    """Compare the length with the spot."""
    timed = _timeline(turn, turn.after)
    actual = f"{timed['durationSeconds']:g} s in a spot of {timed['spotSeconds']:g} s"
    return unless(timed["fits"] == wanted, actual)


def fills(wanted: float, turn: AdTurn) -> str:
    """Compare the share of the spot that is filled."""
    timed = _timeline(turn, turn.after)
    actual = timed["durationSeconds"] / timed["spotSeconds"]
    return unless(actual >= wanted, f"fills {actual:.0%}")


def spot_s(wanted: float, turn: AdTurn) -> str:
    """Compare the length of the spot."""
    actual = _timeline(turn, turn.after)["spotSeconds"]
    return unless(actual == wanted, f"the spot has {actual:g} s")


def duration_max_s(wanted: float, turn: AdTurn) -> str:
    """Compare the length in seconds."""
    actual = _timeline(turn, turn.after)["durationSeconds"]
    return unless(actual <= wanted, f"lasts {actual:g} s")


def shorter(wanted: bool, turn: AdTurn) -> str:
    """Compare words and length with those before the message."""
    old, new = (len(_script(side).split()) for side in (turn.before, turn.after))
    lasted, lasts = (_timeline(turn, side)["durationSeconds"] for side in (turn.before, turn.after))
    return unless((new < old and lasts < lasted) == wanted, f"{old} → {new} words, {lasted:g} → {lasts:g} s")


def language(wanted: str, turn: AdTurn) -> str:
    """Compare the language of the script."""
    actual = languages.detect(_script(turn.after))
    return unless(actual == wanted, f"the script is in {actual}")


def mandatory(wanted: bool, turn: AdTurn) -> str:
    """Find what the brief wants spoken: legal lines, contacts, prices, dates, codes."""
    del wanted
    _, brief = ad_creation.WORKFLOW.view.brief_texts({"messages": [], "brief": brief_of(turn.task)})
    lines = mandatory_lines(brief)
    missing = compare(lines, _script(turn.after), _language(turn)).missing
    return unless(not missing, f"not said: {', '.join(map(str, missing))}")


def numbers_from_brief(wanted: bool, turn: AdTurn) -> str:
    """Find every number and date of the script in the brief or the messages."""
    del wanted
    wrong = [one for one in _unsupported(turn) if number(one) is not None or _is_month(one)]
    return unless(not wrong, f"the brief has no {', '.join(wrong)}")


def names_from_brief(wanted: bool, turn: AdTurn) -> str:
    """Find every name of the script in the brief or the messages."""
    del wanted
    wrong = [one for one in _unsupported(turn) if number(one) is None]
    return unless(not wrong, f"the brief has no {', '.join(wrong)}")


def promises_from_brief(wanted: bool, turn: AdTurn) -> str:
    """Find every promise of the script, such as a guarantee or an award, in the brief or the messages."""
    del wanted
    known = f"{_brief_text(turn)} {_spoken(_brief_text(turn))}"
    made = [one for one in _PROMISES if not lacks(_script(turn.after), one) and lacks(known, one)]
    return unless(not made, f"the brief does not promise {', '.join(made)}")


def _unsupported(turn: AdTurn) -> list[str]:
    evidence = Evidence((_brief_text(turn), _spoken(_brief_text(turn))), language=_language(turn))
    return [one for line in _script(turn.after).split("\n") for one in unproven_claims(line, evidence).wrong]


def _is_month(word: str) -> bool:
    return word.casefold() in MONTHS


def text_contains_all(wanted: Sequence[Sequence[str] | str], turn: AdTurn) -> str:
    """Find one text of each list in the script."""
    script = _script(turn.after)
    lists = [[one] if isinstance(one, str) else one for one in wanted]
    missing = [one for one in lists if not any(_says(script, text) for text in one)]
    return unless(not missing, f"the script says none of {missing[:1]}")


def text_lacks(wanted: Sequence[str], turn: AdTurn) -> str:
    """Find none of the texts in the script."""
    script = _script(turn.after)
    said = [one for one in wanted if (_says(script, one) if one[:1].isdigit() else not lacks(script, one))]
    return unless(not said, f"the script says {said}")


def text_is(wanted: str, turn: AdTurn) -> str:
    """Compare the whole script."""
    actual = " ".join(_script(turn.after).split())
    return unless(actual == wanted, f"the script is {actual!r}"[:300])


def text_ends_with(wanted: str, turn: AdTurn) -> str:
    """Compare the end of the script."""
    return unless(_script(turn.after).casefold().rstrip(" .!").endswith(wanted), "the script ends otherwise")


def no_new_words(wanted: bool, turn: AdTurn) -> str:
    """Find every word of the script in the one before."""
    del wanted
    new = content(_script(turn.after)) - content(_script(turn.before))
    return unless(not new, f"new are {', '.join(sorted(new))}")


def speakers(wanted: int, turn: AdTurn) -> str:
    """Count the voices."""
    actual = len({track["voiceId"] for track in _tracks(turn.after)})
    return unless(actual == wanted, f"{actual} voices")


def voice_gender(wanted: Mapping[str, str], turn: AdTurn) -> str:
    """Compare the gender of the voices of tracks, or of `all`."""
    cast = [voices.find(str(track["voiceId"])) for track in _tracks(turn.after)]
    actual = [voice.gender if voice else "" for voice in cast]
    every = [*range(1, len(actual) + 1)]
    wrong = [
        at
        for name, gender in wanted.items()
        for at in (every if name == "all" else [int(name)])
        if at > len(actual) or actual[at - 1] != gender
    ]
    return unless(actual and not wrong, f"the voices are {actual}")


def voices_same(wanted: bool, turn: AdTurn) -> str:
    """Compare the cast with the one before."""
    casts = [[track["voiceId"] for track in _tracks(side)] for side in (turn.before, turn.after)]
    same = casts[0] == casts[1] or {*casts[0]} == {*casts[1]}
    return unless(same == wanted, f"the cast is {casts[1]}")


def voices_swapped(wanted: Sequence[int], turn: AdTurn) -> str:
    """Compare the voices of two tracks with those before."""
    first, second = (one - 1 for one in wanted)
    old, new = ([track["voiceId"] for track in _tracks(side)] for side in (turn.before, turn.after))
    return unless(
        len(new) == len(old) and (new[first], new[second]) == (old[second], old[first]), f"cast: {new}"
    )


def tracks_min(wanted: int, turn: AdTurn) -> str:
    """Count the tracks."""
    return unless(len(_tracks(turn.after)) >= wanted, f"{len(_tracks(turn.after))} tracks")


def tracks_untouched(wanted: Sequence[int], turn: AdTurn) -> str:
    """Compare tracks with those before; they are the same."""
    return unless(not _changed_tracks(turn) & {*wanted}, f"changed are {sorted(_changed_tracks(turn))}")


def tracks_changed(wanted: Sequence[int], turn: AdTurn) -> str:
    """Compare tracks with those before; they differ."""
    return unless({*wanted} <= _changed_tracks(turn), f"changed are {sorted(_changed_tracks(turn))}")


def _changed_tracks(turn: AdTurn) -> set[int]:
    old, new = _tracks(turn.before), _tracks(turn.after)
    return {at for at, track in enumerate(new, 1) if at > len(old) or track != old[at - 1]}


def tracks_same_text(wanted: bool, turn: AdTurn) -> str:
    """Compare the words of every track with those before."""
    old, new = ([track["text"] for track in _tracks(side)] for side in (turn.before, turn.after))
    return unless((old == new) == wanted, "the words changed")


def track_text_is(wanted: Mapping[str, str], turn: AdTurn) -> str:
    """Compare the words of tracks; -1 is the last one."""
    texts = [str(track["text"]) for track in _tracks(turn.after)]
    at = {name: int(name) if int(name) < 0 else int(name) - 1 for name in wanted}
    wrong = {name: texts[at[name]] for name, text in wanted.items() if texts[at[name]] != text}
    return unless(not wrong, f"the tracks are {wrong}")


def gap_min_s(wanted: Mapping[str, float], turn: AdTurn) -> str:
    """Compare the pause before tracks."""
    spans = _timeline(turn, turn.after)["voices"]
    gaps = {name: spans[int(name) - 1]["start"] - spans[int(name) - 2]["end"] for name in wanted}
    return unless(all(gaps[name] >= least for name, least in wanted.items()), f"the pauses are {gaps}")


def speed(wanted: Mapping[str, Sequence[int] | str], turn: AdTurn) -> str:
    """Compare the pace of tracks with that before: `faster`, `slower`, `same`; `all` for every track."""
    old, new = ([float(track["speed"]) for track in _tracks(side)] for side in (turn.before, turn.after))
    holds = {"faster": lambda a, b: b > a, "slower": lambda a, b: b < a, "same": lambda a, b: a == b}
    for how, tracks in wanted.items():
        every = range(1, len(new) + 1) if isinstance(tracks, str) else tracks
        if len(old) != len(new) or not all(holds[how](old[at - 1], new[at - 1]) for at in every):
            return f"the pace is {new}, and was {old}"
    return ""


def music_contains_any(wanted: Sequence[str], turn: AdTurn) -> str:
    """Find one of the words in the music's description."""
    return unless(has_any(_music(turn.after), wanted), f"the music is {_music(turn.after)!r}")


def music_lacks(wanted: Sequence[str], turn: AdTurn) -> str:
    """Find none of the words in the music's description, but after "not" or "no"."""
    plain = _music(turn.after).casefold()
    for word in wanted:
        plain = plain.replace(f"not {word}", "").replace(f"no {word}", "").replace(f"non-{word}", "")
    return unless(not has_any(plain, wanted), f"the music is {_music(turn.after)!r}")


def music_keeps(wanted: float, turn: AdTurn) -> str:
    """Compare the share of the description before that is left."""
    actual = share(_music(turn.before), _music(turn.after))
    return unless(actual >= wanted, f"keeps {actual:.0%}")


def music_provider(wanted: str, turn: AdTurn) -> str:
    """Compare the music's service."""
    actual = _data(turn.after, "music").get("musicProvider")
    return unless(actual == wanted, f"the service is {actual}")


def sfx_min(wanted: int, turn: AdTurn) -> str:
    """Count the effects."""
    return unless(len(_effects(turn.after)) >= wanted, f"{len(_effects(turn.after))} effects")


def sfx_total(wanted: int, turn: AdTurn) -> str:
    """Count the effects."""
    return unless(len(_effects(turn.after)) == wanted, f"{len(_effects(turn.after))} effects")


def sfx_delta(wanted: int, turn: AdTurn) -> str:
    """Compare the number of effects with that before."""
    actual = len(_effects(turn.after)) - len(_effects(turn.before))
    return unless(actual == wanted, f"{actual:+} effects")


def sfx_has(wanted: Mapping[str, Any], turn: AdTurn) -> str:
    """Find an effect of this description and placement."""
    places = {"start": {"start", "beforeVoices"}}
    for effect in _effects(turn.after):
        place = effect["placement"]
        kind = wanted.get("placement", place["type"])
        same = place["type"] in places.get(kind, {kind}) and place.get("index") == wanted.get(
            "index", place.get("index")
        )
        if same and has_any(effect["description"], wanted["description_any"]):
            return ""
    return f"the effects are {[(one['description'], one['placement']) for one in _effects(turn.after)]}"


def sfx_lacks(wanted: Sequence[str], turn: AdTurn) -> str:
    """Find no effect with one of the words."""
    actual = [one["description"] for one in _effects(turn.after)]
    return unless(not any(has_any(one, wanted) for one in actual), f"the effects are {actual}")


def sfx_kept_except(wanted: Sequence[str], turn: AdTurn) -> str:
    """Compare the effects before, but for those with one of the words; they are still there."""
    kept = [one for one in _effects(turn.before) if not has_any(one["description"], wanted)]
    gone = [one["description"] for one in kept if one not in _effects(turn.after)]
    return unless(not gone, f"gone or changed are {gone}")


def reply_states_length(wanted: bool, turn: AdTurn) -> str:
    """Find the ad's length in the reply, to half a second."""
    length_s = _timeline(turn, turn.after)["durationSeconds"]
    told = [value for one in _figures(turn.reply) if (value := number(one)) is not None]
    near = any(abs(value - length_s) <= 0.5 for value in told)
    return unless(near == wanted, f"the length is {length_s:g} s")


def _figures(text: str) -> Iterable[str]:
    return [token for token in _spoken(text).split() if token[0].isdigit()] + [
        word.strip("s,;:!?()").rstrip(".") for word in text.split() if word[:1].isdigit()
    ]


def product(turn: AdTurn) -> str:
    """Return script, music and effects, if the turn changed one of them."""
    if all(_data(turn.before, name) == _data(turn.after, name) for name in ad.STREAMS):
        return ""
    effects = "; ".join(f"{one['description']} ({one['placement']['type']})" for one in _effects(turn.after))
    lines = [f"Voice {at}: {track['text']}" for at, track in enumerate(_tracks(turn.after), 1)]
    return "\n".join([*lines, f"Music: {_music(turn.after)}", f"Effects: {effects}"])


CHECKS: Final = turns.table(
    *(changed, may_change, versions_created, equals_version, fits, fills, spot_s, duration_max_s),
    *(shorter, language, mandatory, numbers_from_brief, names_from_brief, promises_from_brief),
    *(text_contains_all, text_lacks, text_is, text_ends_with, no_new_words, speakers, voice_gender),
    *(voices_same, voices_swapped, tracks_min, tracks_untouched, tracks_changed, tracks_same_text),
    *(track_text_is, gap_min_s, speed, music_contains_any, music_lacks, music_keeps),
    *(music_provider, sfx_min, sfx_total, sfx_delta, sfx_has, sfx_lacks, sfx_kept_except),
    reply_states_length,
)
