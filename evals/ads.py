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
from callsheet.state.figures import cardinal, digit_tokens, number
from callsheet.state.names import MONTHS
from callsheet.state.owners import LOCAL
from callsheet.state.versions import MODEL
from callsheet.storage.artefacts.artefacts import NewVersion, Stream
from callsheet.tools.ads import voices
from evals import turns
from evals.session import EvalSession
from evals.tasks import CASES, Task, entry_named
from evals.turns import FEWER, MORE, EvalTurn, ForJudge, Outcome, has_any, lacks, unless
from evals.wording import affirms_any, fold, may_spell, replace_all, word_variety

FIELDS: Final = ("brief", "ad")
AdStreams = Mapping[str, Stream]
AdTurn = EvalTurn[AdStreams]
_PROMISES: Final = (
    *("award-winning", "award winning", "guaranteed", "guarantee", "clinically", "proven", "certified"),
    *("number one", "best in", "the best", "cheapest", "fastest", "experts recommend", "scientists"),
    *("doctors recommend", "dentists recommend", "risk-free", "free of charge", "world-famous", "voted"),
    *("five-star", "five stars", "prize", "favourite", "favorite", "trusted by"),
)
"""Words of claims that an ad must be able to prove."""
_CONTACTS: Final = frozenset({"phone number", "code", "address"})
"""Lines that an ad has if its brief has them, even if code is not sure that it wants them language_name."""
_ORDINAL: Final = re.compile(r"(?:st|nd|rd|th)\W*$", re.IGNORECASE)


class AdSession(EvalSession[AdStreams]):
    """An ad, and the conversation about it."""

    workflow: ClassVar[WorkflowSpec[Any]] = ad_creation.WORKFLOW
    subject: ClassVar[str] = "ad spot script music voices effects sound seconds version track speaker brief"

    async def prepare(self) -> Mapping[str, Any]:
        """Return the case's brief as input, or store the case's ad."""
        setup = self.task.setup
        task_brief = brief_of(self.task)
        shared = {"ad_id": self.artefact.id, "brief": task_brief, "language": task_brief["language"]}
        if "brief" in setup:
            return shared
        given = ad_case(setup["ad"])
        await self.artefact.open(owner=LOCAL, thread=self.thread, facts={})
        language = task_brief["language"]
        tracks = ad.track_list(given["tracks"])
        data = {
            "voices": ad.voices_data(tracks, language),
            "music": ad.music_bed(given["music"], "loudly", task_brief["duration"]),
            "sfx": {"soundFxPrompts": ad.effect_list(given["effects"], len(tracks))},
        }
        for stream, one in data.items():
            await self.artefact.create_version(NewVersion(stream, one, MODEL, "given"))
        messages = [
            HumanMessage(brief.message(task_brief)),
            AIMessage("Ready to review: voices v1, music v1, effects v1."),
        ]
        await self.graph.aupdate_state(self.config, {"messages": messages, **shared}, as_node="summarizer")
        return {}

    async def read_artefact(self) -> AdStreams:
        """Return the streams as they are now."""
        return await self.artefact.streams(ad.STREAMS)

    async def edit(self, change: Any) -> Mapping[str, Any]:
        """Replace words of the script, or the music's description, as the person's own version."""
        side = await self.read_artefact()
        for stream, value in change.items():
            data = {**_data(side, stream)}
            if stream == "music":
                data["musicPrompt"] = value
            else:
                tracks = [{**track, "text": replace_all(track["text"], value)} for track in _tracks(side)]
                data["voiceTracks"] = tracks
            await self.artefact.create_version(NewVersion(stream, data, LOCAL, "by hand"))
        return {}

    @classmethod
    def words_of(cls, task: Task, side: AdStreams) -> str:
        """Return the brief and the words of the ad."""
        effects = " ".join(str(one["description"]) for one in _effects(side))
        return "\n".join([brief.message(brief_of(task)), _script(side), _music(side), effects])


@cache
def _ads() -> Mapping[str, Any]:
    return dict(json.loads((CASES / "ad_creation_ads.json").read_text("utf-8")))


def ad_case(name: str) -> Mapping[str, Any]:
    """Return the ad of this name."""
    return dict(entry_named(name, _ads()))


def brief_of(task: Task) -> Brief:
    """Return the brief of a task."""
    body = task.setup.get("brief") or ad_case(task.setup["ad"])
    return brief.parse(body["brief"], language=body.get("language"), market=body.get("market"))


def _brief_text(turn: AdTurn) -> str:
    return "\n".join([brief.message(brief_of(turn.task)), *turn.messages])


def _data(side: AdStreams, name: str) -> Mapping[str, Any]:
    newest = side[name].newest()
    return newest.data if newest else {}


def _tracks(side: AdStreams) -> Sequence[Mapping[str, Any]]:
    tracks: Sequence[Mapping[str, Any]] = _data(side, "voices").get("voiceTracks", ())
    return tracks


def _effects(side: AdStreams) -> Sequence[Mapping[str, Any]]:
    effects: Sequence[Mapping[str, Any]] = _data(side, "sfx").get("soundFxPrompts", ())
    return effects


def _music(side: AdStreams) -> str:
    return str(_data(side, "music").get("musicPrompt", ""))


def _script(side: AdStreams) -> str:
    return "\n".join(str(track["text"]) for track in _tracks(side))


def _language(turn: AdTurn) -> str:
    return str(_data(turn.after, "voices").get("language") or brief_of(turn.task)["language"])


def _timeline(turn: AdTurn, side: AdStreams) -> Timeline:
    data: dict[str, Mapping[str, Any]] = {name: _data(side, name) for name in ad.STREAMS if _data(side, name)}
    return ad.timeline(data, language=_language(turn), spot_s=brief_of(turn.task)["duration"])


def _with_digits(text: str) -> str:
    """Return a text as it is language_name, with numbers as digits."""
    words = (cardinal(word) if _ORDINAL.search(word) else word for word in text.replace("&", " and ").split())
    return " ".join(digit_tokens(" ".join(words)))


def _says(script: str, expected: str) -> bool:
    """Return whether a script says something, in figures or in words."""
    digits = "".join(char for char in expected if char.isdigit())
    rows = "".join(char for char in _with_digits(script) if char.isdigit())
    return (
        not lacks(script, expected)
        or _with_digits(expected) in _with_digits(script)
        or (len(digits) > 3 and digits in rows)
    )


def changed_streams(expected: Sequence[str], turn: AdTurn) -> str:
    """Check which streams changed; every other one must be identical."""
    new = {name for name in ad.STREAMS if _data(turn.before, name) != _data(turn.after, name)}
    allowed = {*expected, *turn.expect.get("may_change", ())}
    return unless({*expected} <= new <= allowed, f"changed {sorted(new) or 'nothing'}")


def may_change(expected: Sequence[str], turn: AdTurn) -> str:
    """Allow further changes in `changed_streams`."""
    return unless(
        "changed_streams" in turn.expect and {*expected} <= {*ad.STREAMS},
        "needs `changed_streams` and names of streams",
    )


def versions_created(expected: Mapping[str, int], turn: AdTurn) -> str:
    """Check the number of new versions."""
    created = {name: len(turn.after[name].versions) - len(turn.before[name].versions) for name in expected}
    return unless(created == {**expected}, f"created {created}")


def variations(expected: Mapping[str, int], turn: AdTurn) -> str:
    """Check that a stream has this many new versions, of which no two have the same content.

    Versions of the voices need different words: a second voice for the same text is no variation of an ad.
    """
    for name, count in expected.items():
        new = turn.after[name].versions[len(turn.before[name].versions) :]
        contents = [_own_content(name, one.data) for one in (*turn.before[name].versions, *new)]
        if len(new) != count or any(contents.count(one) > 1 for one in contents):
            return f"{len(new)} new versions of the {name}, of which {len({*contents[-len(new) :]})} differ"
    return ""


def _own_content(stream: str, data: Mapping[str, Any]) -> str:
    if stream != "voices":
        return json.dumps(data)
    return fold(" ".join(str(track["text"]) for track in data["voiceTracks"]))


def equals_version(expected: Mapping[str, str], turn: AdTurn) -> str:
    """Check that streams equal an earlier version of them."""
    for name, version in expected.items():
        earlier = turn.after[name].find(version)
        if earlier is None or earlier.data != _data(turn.after, name):
            return f"{name} differs from {version}"
    return ""


def fits(expected: bool, turn: AdTurn) -> str:
    """Check whether the ad fits into its spot."""
    timed = _timeline(turn, turn.after)
    actual = f"{timed['durationSeconds']:g} s in a spot of {timed['spotSeconds']:g} s"
    return unless(timed["fits"] == expected, actual)


def fills(expected: float, turn: AdTurn) -> str:
    """Check the filled share of the spot."""
    timed = _timeline(turn, turn.after)
    actual = timed["durationSeconds"] / timed["spotSeconds"]
    return unless(actual >= expected, f"fills {actual:.0%}")


def spot_s(expected: float, turn: AdTurn) -> str:
    """Check the length of the spot."""
    actual = _timeline(turn, turn.after)["spotSeconds"]
    return unless(actual == expected, f"the spot has {actual:g} s")


def duration_max_s(expected: float, turn: AdTurn) -> str:
    """Check the largest length in seconds."""
    actual = _timeline(turn, turn.after)["durationSeconds"]
    return unless(actual <= expected, f"lasts {actual:g} s")


def shorter(expected: bool, turn: AdTurn) -> str:
    """Check whether words and length are less than before the message."""
    old, new = (len(_script(side).split()) for side in (turn.before, turn.after))
    old_s, new_s = (_timeline(turn, side)["durationSeconds"] for side in (turn.before, turn.after))
    is_less = new <= old * FEWER and new_s <= old_s * FEWER
    return unless(is_less == expected, f"{old} → {new} words, {old_s:g} → {new_s:g} s")


def language(expected: str, turn: AdTurn) -> str:
    """Check the language of the script."""
    actual = languages.detect(_script(turn.after))
    return unless(actual == expected, f"the script is in {actual}")


def mandatory(expected: bool, turn: AdTurn) -> Outcome:
    """Check that the script has the brief's mandatory lines: legal texts, contacts, prices, dates, codes.

    A figure that may be there in words of another language is for a judge, unless too few words can say it.
    """
    del expected
    _, brief = ad_creation.WORKFLOW.view.brief_texts({"messages": [], "brief": brief_of(turn.task)})
    script, language_name = _script(turn.after), _language(turn)
    compared = compare(mandatory_lines(brief), script, language_name)
    open_lines = [line for line in compared.check if line.is_sure or line.kind in _CONTACTS]
    silent = [line for line in open_lines if not may_spell(script, line.text, language_name)]
    if missing := [*compared.missing, *silent]:
        return f"not said: {', '.join(map(str, missing))}"
    return ForJudge(f"The script says {', '.join(map(str, open_lines))}.") if open_lines else ""


def numbers_from_brief(expected: bool, turn: AdTurn) -> str:
    """Check that every number and date of the script is in the brief or the messages."""
    del expected
    wrong = [one for one in _unproven_words(turn) if number(one) is not None or _is_month(one)]
    return unless(not wrong, f"the brief has no {', '.join(wrong)}")


def names_from_brief(expected: bool, turn: AdTurn) -> str:
    """Check that every name of the script is in the brief or the messages."""
    del expected
    wrong = [one for one in _unproven_words(turn) if number(one) is None]
    return unless(not wrong, f"the brief has no {', '.join(wrong)}")


def promises_from_brief(expected: bool, turn: AdTurn) -> str:
    """Check that every promise of the script, such as an award, is in the brief or the messages."""
    del expected
    source = f"{_brief_text(turn)} {_with_digits(_brief_text(turn))}"
    promises = [one for one in _PROMISES if not lacks(_script(turn.after), one) and lacks(source, one)]
    return unless(not promises, f"the brief does not promise {', '.join(promises)}")


def _unproven_words(turn: AdTurn) -> list[str]:
    evidence = Evidence((_brief_text(turn), _with_digits(_brief_text(turn))), language=_language(turn))
    return [one for line in _script(turn.after).split("\n") for one in unproven_claims(line, evidence).wrong]


def _is_month(word: str) -> bool:
    return word.casefold() in MONTHS


def text_contains_all(expected: Sequence[Sequence[str] | str], turn: AdTurn) -> str:
    """Check that the script has one text of each list."""
    script = _script(turn.after)
    lists = [[one] if isinstance(one, str) else one for one in expected]
    missing = [one for one in lists if not any(_says(script, text) for text in one)]
    return unless(not missing, f"the script says none of {missing[:1]}")


def text_lacks(expected: Sequence[str], turn: AdTurn) -> str:
    """Check that the script has none of the texts."""
    script = _script(turn.after)
    present = [
        one for one in expected if (_says(script, one) if one[:1].isdigit() else not lacks(script, one))
    ]
    return unless(not present, f"the script says {present}")


def text_is(expected: str, turn: AdTurn) -> str:
    """Check the complete script."""
    actual = " ".join(_script(turn.after).split())
    return unless(actual == expected, f"the script is {actual!r}"[:300])


def text_replaced(expected: Mapping[str, str], turn: AdTurn) -> str:
    """Check that the script is the earlier one with these words replaced, and nothing else."""
    wanted = replace_all(fold(_script(turn.before)), {fold(old): fold(new) for old, new in expected.items()})
    actual = fold(_script(turn.after))
    return unless(actual == wanted, f"the script is {actual!r}"[:300])


def text_keeps(expected: float, turn: AdTurn) -> str:
    """Check how much of the earlier script's content the new one has."""
    actual = share(_script(turn.before), _script(turn.after))
    return unless(actual >= expected, f"keeps {actual:.0%} of the earlier script")


def text_ends_with(expected: str, turn: AdTurn) -> str:
    """Check the end of the script."""
    return unless(
        _script(turn.after).casefold().rstrip(" .!").endswith(expected), "the script ends otherwise"
    )


def no_new_words(expected: bool, turn: AdTurn) -> str:
    """Check that every word of the script was in the earlier one."""
    del expected
    new = content(_script(turn.after)) - content(_script(turn.before))
    return unless(not new, f"new are {', '.join(sorted(new))}")


def variety(expected: float, turn: AdTurn) -> str:
    """Check the least share of distinct words of the script, which filler does not have."""
    actual = word_variety(_script(turn.after))
    return unless(actual >= expected, f"{actual:.0%} of the words are distinct")


def speakers(expected: int, turn: AdTurn) -> str:
    """Check the number of voices."""
    actual = len({track["voiceId"] for track in _tracks(turn.after)})
    return unless(actual == expected, f"{actual} voices")


def voice_gender(expected: Mapping[str, str], turn: AdTurn) -> str:
    """Check the gender of the voices of tracks, or of `all`."""
    cast = [voices.find(str(track["voiceId"])) for track in _tracks(turn.after)]
    actual = [voice.gender if voice else "" for voice in cast]
    every = [*range(1, len(actual) + 1)]
    wrong = [
        at
        for name, gender in expected.items()
        for at in (every if name == "all" else [int(name)])
        if at > len(actual) or actual[at - 1] != gender
    ]
    return unless(actual and not wrong, f"the voices are {actual}")


def voices_same(expected: bool, turn: AdTurn) -> str:
    """Check whether the cast is the same as before."""
    casts = [[track["voiceId"] for track in _tracks(side)] for side in (turn.before, turn.after)]
    same = casts[0] == casts[1] or {*casts[0]} == {*casts[1]}
    return unless(same == expected, f"the cast is {casts[1]}")


def voices_swapped(expected: Sequence[int], turn: AdTurn) -> str:
    """Check that two tracks have exchanged their voices."""
    first, second = (one - 1 for one in expected)
    old, new = ([track["voiceId"] for track in _tracks(side)] for side in (turn.before, turn.after))
    return unless(
        len(new) == len(old) and (new[first], new[second]) == (old[second], old[first]), f"cast: {new}"
    )


def tracks_min(expected: int, turn: AdTurn) -> str:
    """Check the least number of tracks."""
    return unless(len(_tracks(turn.after)) >= expected, f"{len(_tracks(turn.after))} tracks")


def tracks_untouched(expected: Sequence[int], turn: AdTurn) -> str:
    """Check that tracks are the same as before."""
    return unless(not _changed_tracks(turn) & {*expected}, f"changed are {sorted(_changed_tracks(turn))}")


def tracks_changed(expected: Sequence[int], turn: AdTurn) -> str:
    """Check that tracks differ from those before."""
    return unless({*expected} <= _changed_tracks(turn), f"changed are {sorted(_changed_tracks(turn))}")


def _changed_tracks(turn: AdTurn) -> set[int]:
    old, new = _tracks(turn.before), _tracks(turn.after)
    return {at for at, track in enumerate(new, 1) if at > len(old) or track != old[at - 1]}


def tracks_same_text(expected: bool, turn: AdTurn) -> str:
    """Check whether every track has the same words as before."""
    old, new = ([track["text"] for track in _tracks(side)] for side in (turn.before, turn.after))
    return unless((old == new) == expected, "the words changed")


def track_text_is(expected: Mapping[str, str], turn: AdTurn) -> str:
    """Check the words of tracks; -1 is the last one."""
    texts = [str(track["text"]) for track in _tracks(turn.after)]
    at = {name: int(name) if int(name) < 0 else int(name) - 1 for name in expected}
    wrong = {name: texts[at[name]] for name, text in expected.items() if texts[at[name]] != text}
    return unless(not wrong, f"the tracks are {wrong}")


def gap_min_s(expected: Mapping[str, float], turn: AdTurn) -> str:
    """Check the shortest pause before tracks."""
    spans = _timeline(turn, turn.after)["voices"]
    gaps = {name: spans[int(name) - 1]["start"] - spans[int(name) - 2]["end"] for name in expected}
    return unless(all(gaps[name] >= least for name, least in expected.items()), f"the pauses are {gaps}")


def speed(expected: Mapping[str, Sequence[int] | str], turn: AdTurn) -> str:
    """Check the new speed of tracks: `faster`, `slower`, `same`; `all` for every track."""
    old, new = ([float(track["speed"]) for track in _tracks(side)] for side in (turn.before, turn.after))
    holds = {
        "faster": lambda a, b: b >= a * MORE,
        "slower": lambda a, b: b <= a * FEWER,
        "same": lambda a, b: a == b,
    }
    for how, tracks in expected.items():
        every = range(1, len(new) + 1) if isinstance(tracks, str) else tracks
        if len(old) != len(new) or not all(holds[how](old[at - 1], new[at - 1]) for at in every):
            return f"the pace is {new}, and was {old}"
    return ""


def music_contains_any(expected: Sequence[str], turn: AdTurn) -> Outcome:
    """Check that the music's description has one of the words, not denied; a judge reads other words."""
    return turns.description_outcome(_music(turn.after), expected, "music")


def music_lacks(expected: Sequence[str], turn: AdTurn) -> str:
    """Check that the music's description has none of the words, unless it denies them."""
    music = _music(turn.after)
    return unless(music and affirms_any(music, expected) is not True, f"the music is {music!r}")


def music_keeps(expected: float, turn: AdTurn) -> str:
    """Check how much of the earlier description is kept."""
    actual = share(_music(turn.before), _music(turn.after))
    return unless(actual >= expected, f"keeps {actual:.0%}")


def music_provider(expected: str, turn: AdTurn) -> str:
    """Check the music's service."""
    actual = _data(turn.after, "music").get("musicProvider")
    return unless(actual == expected, f"the service is {actual}")


def sfx_min(expected: int, turn: AdTurn) -> str:
    """Check the least number of effects."""
    return unless(len(_effects(turn.after)) >= expected, f"{len(_effects(turn.after))} effects")


def sfx_total(expected: int, turn: AdTurn) -> str:
    """Check the number of effects."""
    return unless(len(_effects(turn.after)) == expected, f"{len(_effects(turn.after))} effects")


def sfx_delta(expected: int, turn: AdTurn) -> str:
    """Check how many effects were added or removed."""
    actual = len(_effects(turn.after)) - len(_effects(turn.before))
    return unless(actual == expected, f"{actual:+} effects")


def sfx_has(expected: Mapping[str, Any], turn: AdTurn) -> Outcome:
    """Check that an effect has this placement and description; a judge reads other words of a new one."""
    placed = [one for one in _effects(turn.after) if _is_placed(one["placement"], expected)]
    outcomes = [
        turns.description_outcome(one["description"], expected["description_any"], "effect") for one in placed
    ]
    if "" in outcomes:
        return ""
    new = [each for one, each in zip(placed, outcomes, strict=True) if one not in _effects(turn.before)]
    if for_judge := [one for one in new if isinstance(one, ForJudge)]:
        return for_judge[0]
    return f"the effects are {[(one['description'], one['placement']) for one in _effects(turn.after)]}"


def _is_placed(place: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    places = {"start": {"start", "beforeVoices"}}
    kind = expected.get("placement", place["type"])
    index = place.get("index")
    return place["type"] in places.get(kind, {kind}) and index == expected.get("index", index)


def sfx_lacks(expected: Sequence[str], turn: AdTurn) -> str:
    """Check that no effect has one of the words."""
    actual = [one["description"] for one in _effects(turn.after)]
    return unless(not any(affirms_any(one, expected) for one in actual), f"the effects are {actual}")


def sfx_kept_except(expected: Sequence[str], turn: AdTurn) -> str:
    """Check that all earlier effects are kept, except those with one of the words."""
    kept = [one for one in _effects(turn.before) if not has_any(one["description"], expected)]
    missing = [one["description"] for one in kept if one not in _effects(turn.after)]
    return unless(not missing, f"gone or changed are {missing}")


def reply_states_length(expected: bool, turn: AdTurn) -> str:
    """Check that the reply has the ad's length, to half a second."""
    length_s = _timeline(turn, turn.after)["durationSeconds"]
    figures = [value for one in _figures(turn.reply) if (value := number(one)) is not None]
    near = any(abs(value - length_s) <= 0.5 for value in figures)
    return unless(near == expected, f"the length is {length_s:g} s")


def _figures(text: str) -> Iterable[str]:
    return [token for token in _with_digits(text).split() if token[0].isdigit()] + [
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
    *(changed_streams, may_change, versions_created, equals_version, fits, fills, spot_s, duration_max_s),
    *(shorter, language, mandatory, numbers_from_brief, names_from_brief, promises_from_brief),
    *(
        text_contains_all,
        text_lacks,
        text_is,
        text_replaced,
        text_keeps,
        text_ends_with,
        no_new_words,
        variety,
    ),
    *(speakers, voice_gender, variations),
    *(voices_same, voices_swapped, tracks_min, tracks_untouched, tracks_changed, tracks_same_text),
    *(track_text_is, gap_min_s, speed, music_contains_any, music_lacks, music_keeps),
    *(music_provider, sfx_min, sfx_total, sfx_delta, sfx_has, sfx_lacks, sfx_kept_except),
    reply_states_length,
)
