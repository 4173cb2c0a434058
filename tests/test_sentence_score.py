"""The examiner examined: each expectation passes what is right and fails what is wrong."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from providers.offline.ad_creation.kinds import WRITTEN
from tests.sentence_checks import CHECKS
from tests.sentence_score import Case, load, score, summary

VOICES = [
    {"id": "ann", "name": "Ann Lee", "gender": "Female", "accent": "en-GB"},
    {"id": "bob", "name": "Robert", "gender": "male", "accent": "American"},
    {"id": "cat", "name": "Cat", "gender": "female"},
    {"id": "dot", "name": "Dot"},
]
BODY = {
    "brief": {
        "clientDescription": "Oak Books, 12 shelves",
        "additionalContext": "call 555-0142",
        "duration": 30,
    }
}
KEYS = {"voices": "voiceTracks", "sfx": "soundFxPrompts"}


def line(number: int, text: str, voice: str = "ann", **more: Any) -> dict[str, Any]:
    first = {"id": f"track-{number - 1}", "voiceId": voice, "text": text, "overlap": 0, "speed": 1.0}
    return {**first, "playAfter": "start" if number == 1 else f"track-{number - 2}", **more}


def effect(description: str, kind: str = "end", duration: float = 3, **more: Any) -> dict[str, Any]:
    return {"description": description, "placement": {"type": kind, **more}, "duration": duration}


def music(prompt: str, duration: float = 30, provider: str = "loudly") -> dict[str, Any]:
    return {"musicPrompt": prompt, "musicProvider": provider, "duration": duration}


def timeline(*spans: tuple[float, float], spot: float = 30) -> dict[str, Any]:
    end = max(stop for _, stop in spans)
    voices = [{"id": f"track-{i}", "start": start, "end": stop} for i, (start, stop) in enumerate(spans)]
    return {"spotSeconds": spot, "durationSeconds": end, "fits": end <= spot, "voices": voices}


TWO = [line(1, "Oak Books has 12 shelves of stories."), line(2, "Come in. Read on!", "bob")]
BELL, WHOOSH = effect("Shop bell", "start"), effect("Deep whoosh", "end")
START = {
    "voices": {"id": "v1", "data": {"voiceTracks": TWO}, "versions": {"v1": {"voiceTracks": TWO}}},
    "music": {"id": "v1", "data": music("Warm jazz trio"), "versions": {"v1": music("Warm jazz trio")}},
    "sfx": {"id": "v1", "data": {"soundFxPrompts": [BELL]}, "versions": {"v1": {"soundFxPrompts": [BELL]}}},
    "timeline": timeline((3, 10), (10, 20)),
    "catalogue": VOICES,
}


def then(state: Mapping[str, Any], steps: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Return the state with new versions of some streams, a tuple meaning several, and what was created."""
    after, created = dict(state), []
    for stream, value in steps.items():
        if stream == "timeline":
            after[stream] = value
            continue
        for one in value if isinstance(value, tuple) else (value,):
            data = {KEYS[stream]: one} if stream in KEYS else one
            past = after.get(stream, {"versions": {}})["versions"]
            name = f"v{len(past) + 1}"
            after[stream] = {"id": name, "data": data, "versions": {**past, name: data}}
            created.append({"stream": stream, "versionId": name})
    return after, created


def judged(expect: Mapping[str, Any], steps: Mapping[str, Any], **more: Any) -> list[str]:
    """Return the failures of a turn that took `steps` from `START`, or from `first` steps made before."""
    given = {"lang": "english", "reply": "Done.", "first": {}, "start": START, **more}
    before, _ = then(given["start"], given["first"])
    after, created = then(before, {k: v for k, v in steps.items() if k != "reply"})
    case = Case("case", "group", given["lang"], BODY, "Say it 3 times", expect, said=["It was 1987"])
    return score(case, before, after, created, steps.get("reply", given["reply"]))


def says(*texts: str, voice: str = "ann") -> dict[str, Any]:
    return {"voices": [line(number, text, voice) for number, text in enumerate(texts, 1)]}


def cast(*voices: str) -> dict[str, Any]:
    return {"voices": [{**old, "voiceId": voice} for old, voice in zip(TWO, voices, strict=True)]}


def adds(voice: str) -> dict[str, Any]:
    return {"voices": [*TWO, line(3, "Bye.", voice)]}


def paced(*speeds: float) -> dict[str, Any]:
    return {"voices": [{**old, "speed": speed} for old, speed in zip(TWO, speeds, strict=True)]}


def sounds(*effects: dict[str, Any]) -> dict[str, Any]:
    return {"sfx": list(effects)}


def plays(prompt: str, **more: Any) -> dict[str, Any]:
    return {"music": music(prompt, **more)}


def lasts(*spans: tuple[float, float], spot: float = 30) -> dict[str, Any]:
    return {"timeline": timeline(*spans, spot=spot)}


def has(word: str, **more: Any) -> dict[str, Any]:
    return {"description_any": [word], **more}


def replies(text: str) -> dict[str, Any]:
    return {"reply": text}


def both(*versions: Mapping[str, Any]) -> dict[str, Any]:
    return {"voices": tuple(one["voices"] for one in versions)}


THAI = "ร้านหนังสือโอ๊ก มีหนังสือมากมาย"
EXAMPLES: list[tuple[str, Any, Mapping[str, Any], Mapping[str, Any]]] = [
    ("changed", ["music"], plays("Upbeat jazz"), {}),
    ("changed", ["music"], plays("Upbeat jazz"), {**plays("Upbeat jazz"), **sounds(WHOOSH)}),
    ("changed", ["music"], plays("Upbeat jazz"), plays("Warm jazz trio")),
    ("changed", ["music"], plays("Upbeat jazz"), {"music": (music("One"), music("Two"))}),
    ("changed", [], {}, sounds()),
    ("versions_created", {"voices": 2}, both(says("A"), says("B")), both(says("A"), says("A"))),
    ("versions_created", {"voices": 1, "music": 1}, {**says("A"), **plays("B")}, says("A")),
    ("equals_version", {"music": "v1"}, plays("Warm jazz trio"), plays("Warm jazz")),
    ("equals_version", {"music": "v1"}, {}, plays("Warm jazz trio", duration=20)),
    ("any_of", [{"sfx_total": 0}, {"sfx_total": 2}], sounds(BELL, WHOOSH), {}),
    ("tracks_min", 2, {}, says("One.")),
    ("speakers", 1, says("One.", "Two."), {}),
    ("speakers_min", 2, {}, says("One.", "Two.")),
    ("tracks_untouched", [1], cast("ann", "cat"), cast("cat", "bob")),
    ("tracks_untouched", [-1], cast("cat", "bob"), cast("ann", "cat")),
    ("tracks_untouched", "all", {}, says("One.")),
    ("tracks_changed", [2], paced(1, 1.1), paced(1.1, 1)),
    ("tracks_changed", [1, 2], paced(1.1, 1.1), says("Only one.")),
    ("track_voice_changed", "all", cast("bob", "ann"), cast("bob", "bob")),
    ("track_voice_changed", [2], cast("ann", "cat"), cast("cat", "bob")),
    ("voice_new", "all", cast("cat", "dot"), cast("cat", "ann")),
    ("voices_same", True, paced(1, 1.2), cast("ann", "cat")),
    ("tracks_same_text", True, cast("cat", "cat"), says("Oak Books.", "Come in. Read on!")),
    ("speed_lt", "all", paced(0.9, 0.9), paced(0.9, 1)),
    ("speed_lt", [2], paced(1, 0.9), {"voices": [TWO[0], {**TWO[1], "speed": None}]}),
    ("speed_gt", [2], paced(1, 1.1), paced(1.1, 1)),
    ("speed_same", [1], paced(1, 1.1), paced(1.1, 1)),
    ("speed_is", {"all": 1.2}, paced(1.2, 1.2), paced(1.2, 1.1)),
    ("voices_swapped", [1, 2], cast("bob", "ann"), cast("ann", "bob")),
    ("voices_as_in", "v1", {}, cast("ann", "cat")),
    ("voices_as_in", "v1", adds("bob"), adds("cat")),
    ("voice_gender", {"1": "female", "2": "male"}, {}, cast("ann", "cat")),
    ("voice_gender", {"all": "male"}, cast("bob", "bob"), cast("dot", "dot")),
    ("voice_accent", {"1": ["british", "gb"]}, {}, cast("bob", "ann")),
    ("voice_gender_same", "all", cast("cat", "bob"), cast("bob", "bob")),
    ("voice_gender_same", "all", cast("dot", "bob"), cast("cat", "ann")),
    ("versions_genders", ["male"], both(says("A"), says("A", voice="bob")), both(says("A"), says("B"))),
    ("versions_same_voices", True, both(says("A"), says("B")), both(says("A"), says("B", voice="bob"))),
    ("openings_distinct", True, both(says("A. C."), says("B. C.")), both(says("A. B."), says("a! C."))),
    ("text_contains_all", [["oak"], ["shelf", "shelves"]], {}, says("Oak Books.")),
    ("text_contains_all", ["Lee and Co", "co op"], says("Lee & Co co-op"), says("Attlee and Co co-op")),
    ("text_contains_all", [["29"]], says("For $29."), says("For $295.")),
    ("text_lacks", ["pain"], says("Spain."), says("It is Painless.")),
    ("text_is", "Don't mop, 'Call'.", says("Don’t mop.", "“Call”"), says("Do not mop.", "Call")),
    ("text_ends_with_any", ["bye", "read on"], {}, says("Read on.", "Now.")),
    ("text_count_min", {"oak": 2, "in": 1}, says("Oak.", "Oak in!"), says("Oak in.", "Soaking.")),
    ("text_shorter", True, says("Oak Books."), says(TWO[0]["text"], "Come in. Read on now!")),
    ("text_shorter", True, says("Oak Books."), says("")),
    ("no_new_words", True, says("Stories. Come in!"), says("Stories. Come along!")),
    ("last_sentence_cut", True, says(TWO[0]["text"], "Come in."), says("Come in. Read on!")),
    ("starts_with_question", True, says('"Bored?" Read.'), says("Read. Bored?")),
    ("track_text_is", {"-1": "come in - read on"}, {}, says("Come in. Read on!", "Oak.")),
    ("track_text_starts_with", {"2": "Come in"}, {}, says("Come in. Read on!", "Oak.")),
    ("digits_from_brief", True, says("12, 555 0142, 1987, 3."), says("30 shelves.")),
    ("script", {"Thai": 0.9}, says(THAI), says(THAI + " Oak Books and stories")),
    ("script", {"Han": 0.5, "Latin": 0.1}, says("蓝灯咖啡在上海 Blue"), says("蓝 Blue")),
    ("language", "polish", says("Jest w nas to, że nie śpisz."), says("The best of our books for you. Nie!")),
    ("language", "polish", says("Jest w nas."), says("Jest the best.")),
    ("language", "polish", says("Jest w nas."), says("Books nie.")),
    ("language", "english", says("The best of our books."), says("Los mejores libros de la villa.")),
    ("music_contains_any", ["lo-fi", "jazz"], {}, plays("Rock")),
    ("music_contains_all", [["warm", "hot"], "trio"], {}, plays("Warm jazz")),
    ("music_lacks", ["drum"], plays("Harp, no drums or bass. Drumless"), plays("No harp, big drums")),
    ("music_lacks", ["jazz"], plays("Less jazz"), plays("Not rock but jazz")),
    ("music_keeps", 0.5, plays("Warm jazz, faster"), plays("Cold jazz")),
    ("music_keeps", {"version": "v1", "share": 1}, plays("Slow warm jazz trio"), plays("Slow warm jazz")),
    ("music_provider", "mubert", plays("Jazz", provider="mubert"), {}),
    ("music_duration_s", 20, plays("Jazz", duration=20), {}),
    ("sfx_min", 1, {}, sounds()),
    ("sfx_total", 0, sounds(), {}),
    ("sfx_delta", 1, sounds(BELL, WHOOSH), sounds(WHOOSH)),
    ("sfx_kept", True, sounds(WHOOSH, BELL), sounds(WHOOSH, {**BELL, "duration": 2})),
    ("sfx_kept", True, sounds({**BELL, "duration": float(BELL["duration"])}), sounds(effect("Shop bell"))),
    ("sfx_kept_except", ["whoosh"], sounds(BELL), sounds(WHOOSH)),
    ("sfx_lacks", ["bell"], sounds(WHOOSH), sounds(WHOOSH, effect("Tiny bell"))),
    (
        "sfx_has",
        {"description_any": ["gong", "bell"], "placement": "start"},
        {},
        sounds(effect("Bell", "end")),
    ),
    ("sfx_has", has("bell", placement="start"), sounds(effect("Bell", "beforeVoices")), sounds()),
    ("sfx_has", has("tick", duration=1.5), sounds(effect("Tick", duration=1.5)), sounds(effect("Tick"))),
    (
        "sfx_has",
        [has("door", placement="afterVoice", index=0)],
        sounds(effect("Door", "afterVoice", index=0)),
        sounds(effect("Door", "afterVoice", index=1)),
    ),
    ("spot_s", 30, {}, lasts((0, 15), spot=15)),
    ("fits", True, {}, lasts((0, 31))),
    ("duration_max_s", 20, {}, lasts((0, 20.1))),
    ("duration_lt_before", True, lasts((0, 19)), {}),
    ("duration_gt_before", True, lasts((0, 21)), {}),
    ("first_voice_later_s", 1.9, lasts((5, 12)), lasts((4, 12))),
    ("fills", 0.6, {}, lasts((0, 17))),
    ("gap_min_s", {"2": 0.9, "3": 0}, lasts((0, 9), (10, 19), (19, 20)), lasts((3, 10), (10, 20), (20, 21))),
    ("gap_max_s", {"2": -0.3}, lasts((0, 10), (9.5, 20)), {}),
    ("starts_together", [1, 2], lasts((3, 10), (3, 12)), {}),
    ("reply_contains_any", ["yes", "fits"], replies("It fits."), replies("It outfits.")),
    ("reply_contains_all", ["v1", "v2"], replies("v1 and v2"), replies("v1 and v20")),
    ("reply_states", ["duration"], replies("It lasts 19,8 s of 30."), replies("It lasts 30 s.")),
    ("reply_states", ["sfx_count"], replies("One effect"), replies("Two effects")),
    ("reply_states", ["music_prompt"], replies('It is "warm jazz trio".'), replies("It is jazz.")),
    ("reply_states", ["track_text:2"], replies("She says: Come in. Read on!"), replies("She says: Come in.")),
    ("reply_states", ["voice:1"], replies("Ann Lee speaks"), replies("Robert speaks")),
    ("reply_states", ["voice:2"], replies("Robert speaks"), replies("Ann Lee speaks")),
    ("admits", True, replies("Sorry, I can’t book rooms."), replies("Done, booked.")),
    ("asks_or_admits", True, replies("Which one?"), replies("Sure.")),
    ("asks_or_admits", True, replies("I did not understand."), replies("Sure.")),
]


@pytest.mark.parametrize(("key", "want", "good", "bad"), EXAMPLES)
def test_each_expectation_passes_what_is_right_and_names_what_is_wrong(
    key: str, want: Any, good: Mapping[str, Any], bad: Mapping[str, Any]
) -> None:
    assert judged({key: want}, good) == []
    failures = judged({key: want}, bad)
    assert len(failures) == 1
    assert failures[0].startswith(f"{key} ")


def test_every_expectation_has_an_example_and_is_used_in_the_file() -> None:
    used = {
        key for case in load() for expect in (case.expect, *case.expect.get("any_of", ())) for key in expect
    }
    assert {key for key, *_ in EXAMPLES} == {*CHECKS, "any_of"}
    assert used == {*CHECKS, "any_of", "may_change"}


def test_a_stream_that_may_change_need_not() -> None:
    expect = {"changed": ["music"], "may_change": ["sfx"]}
    assert judged(expect, plays("Upbeat")) == []
    assert judged(expect, {**plays("Upbeat"), **sounds(WHOOSH)}) == []
    assert judged(expect, sounds(WHOOSH)) != []


def test_several_versions_are_a_change_only_where_they_are_wanted() -> None:
    steps = both(says("A"), says("B"))
    assert judged({"changed": ["voices"], "versions_created": {"voices": 2}}, steps) == []
    assert judged({"changed": ["voices"]}, steps) != []


def test_data_that_differs_without_a_new_version_is_a_failure() -> None:
    after, _ = then(START, plays("Other"))
    case = Case("case", "group", "english", BODY, "Hello", {"changed": []})
    assert score(case, START, after, [], "Hello!") == ["changed []: music differs without a new version"]


def test_what_an_earlier_version_was_is_found_behind_the_newest() -> None:
    first = {**cast("cat", "dot"), **plays("Rock")}
    assert judged({"equals_version": {"music": "v1"}}, plays("Warm jazz trio"), first=first) == []
    assert judged({"voices_as_in": "v1"}, cast("ann", "bob"), first=first) == []
    assert judged({"voice_new": [1]}, cast("bob", "dot"), first=first) != []
    assert (
        judged({"music_keeps": {"version": "v1", "share": 1}}, plays("Slow warm jazz trio"), first=first)
        == []
    )
    assert judged({"reply_states": ["music_prompt:v1"]}, replies("v1: Warm jazz trio"), first=first) == []
    assert judged({"reply_states": ["music_prompt:v1"]}, replies("v1: Rock"), first=first) != []


def test_a_first_brief_is_compared_with_nothing() -> None:
    steps = {**says("Oak Books."), **plays("Jazz"), **sounds(BELL), **lasts((0, 20))}
    expect = {"changed": ["music", "sfx", "voices"], "fills": 0.6, "digits_from_brief": True}
    assert judged(expect, steps, start={"catalogue": VOICES}) == []
    assert judged({"speed_lt": "all"}, steps, start={"catalogue": VOICES}) != []


def test_an_attribute_that_no_voice_publishes_is_not_asked_for_but_a_published_one_is() -> None:
    plain = {**START, "catalogue": [{"id": "ann", "name": "Ann"}, {"id": "bob", "name": "Bob"}]}
    assert judged({"voice_gender": {"all": "male"}}, {}, start=plain) == []
    assert judged({"versions_genders": ["male"]}, both(says("A"), says("B")), start=plain) == []
    assert judged({"voice_gender": {"all": "male"}}, {}) != []


def test_what_is_missing_from_a_state_is_a_failure_and_not_an_exception() -> None:
    assert judged({"fits": True}, {}, start={}) == ["fits true: missing 'timeline'"]
    assert judged({"tracks_untouched": [3]}, {}) == [
        "tracks_untouched [3]: missing one of the tracks [3]: there are 2"
    ]
    assert judged({"equals_version": {"music": "v7"}}, {}) != []


def test_an_empty_reply_is_always_a_failure() -> None:
    assert judged({}, replies(" \n")) == ["the reply is empty"]


@pytest.mark.parametrize(
    ("lang", "admits", "does_not"),
    [
        ("polish", "Niestety nie mogę tego zrobić.", "Nie ma problemu, gotowe."),
        ("chinese", "抱歉，我无法回答。", "没有问题，好了。"),
        ("thai", "ขอโทษค่ะ ไม่สามารถจองได้", "ไม่มีปัญหาค่ะ เรียบร้อย"),
        ("vietnamese", "I cannot do that.", "Không có gì!"),
    ],
)
def test_admitting_is_recognised_in_the_language_of_the_sentence_or_english(
    lang: str, admits: str, does_not: str
) -> None:
    assert judged({"admits": True}, replies(admits), lang=lang) == []
    assert judged({"admits": True}, replies(does_not), lang=lang) != []


def test_the_summary_counts_by_group_and_rounds_down() -> None:
    case = Case("a", "music", "english", BODY, "x", {})
    other = Case("b", "voices", "english", BODY, "x", {})
    table = summary([(case, []), (case, []), (case, ["no"]), (other, ["no"])])
    assert table.splitlines() == [
        "music             2 of    3   66 %",
        "voices            0 of    1    0 %",
        "all               2 of    4   50 %",
    ]
    assert summary([]) == "all               0 of    0    – %"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"brief": "nowhere"}, "nowhere"),
        ({"expect": {"no_such_thing": 1}}, "no_such_thing"),
        ({"expect": {"any_of": [{"hidden": 1}]}}, "hidden"),
        ({"lang": "klingon"}, "klingon"),
        ({"id": "b"}, "doubled"),
    ],
)
def test_a_file_with_a_mistake_is_refused(tmp_path: Path, change: dict[str, Any], error: str) -> None:
    brief: dict[str, Any] = {
        "id": "b",
        "group": "brief",
        "lang": "thai",
        "brief": BODY,
        "said": [],
        "say": None,
        "expect": {},
    }
    row = {**brief, "id": "r", "brief": "b", "say": "hello"}
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in (brief, row)), "utf-8")
    assert [case.brief for case in load(path)] == [BODY, BODY]
    path.write_text("\n".join(json.dumps(one) for one in (brief, {**row, **change})), "utf-8")
    with pytest.raises(ValueError, match=error):
        load(path)


def test_the_file_is_as_large_and_as_varied_as_was_promised() -> None:
    """ARCHITECTURE §6; A-R15: both body shapes, every written language, 7 to 90 seconds."""
    cases = load()
    briefs = [case for case in cases if case.say is None]
    later = [case for case in cases if case.say is not None]
    spots = [case.expect["spot_s"] for case in briefs]
    assert len(briefs) >= 30
    assert len(later) >= 90
    assert (min(spots), max(spots)) == (7, 90)
    assert min(Counter(case.lang for case in briefs).values()) >= 3
    assert {case.lang for case in briefs} == set(WRITTEN)
    assert min(Counter(case.lang for case in later).values()) >= 3
    assert sum(case.lang != "english" for case in later) >= 20
    assert {"format" in case.brief["brief"] for case in briefs} == {True, False}
    assert sum(len(case.said) > 10 for case in later) >= 2


def test_doing_nothing_and_saying_done_passes_only_where_nothing_was_asked() -> None:
    idle = [case for case in load() if case.say and not score(case, START, START, [], "Done.")]
    assert [
        case.id for case in idle if case.expect["changed"] or case.group in {"nonsense", "out of scope"}
    ] == []
