"""The five tools of an audio ad, called through the guard (A1-A23)."""

import pytest

from callsheet.state.owners import LOCAL
from callsheet.state.plan import Step
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.tools import REGISTRY
from callsheet.tools.ads import voices
from callsheet.tools.call import Scope
from callsheet.tools.guard import guard

ENGLISH = [voice.id for voice in voices.search("english", count=4)]
POLISH = [voice.id for voice in voices.search("polish", count=2)]
FACTS = {"language": "english", "market": "US", "spotSeconds": "30"}


@pytest.fixture
def call_tool(opened):
    """A function that calls a tool of one ad and returns its output."""
    count = iter(range(1000))

    async def call_tool(name, **params):
        writes = sorted(REGISTRY[name].writes)
        number = next(count)
        step = Step(
            id=f"c{number}", tool=name, display="", params=params, dependencies=[], reads=[], writes=writes
        )
        scope = Scope("local", "t", "ad", "ad-7", run=f"run-{number}", task="task", epoch=1, facts=FACTS)
        return (await guard.call(REGISTRY, step, scope)).output

    return call_tool


async def newest_data(opened, stream):
    return (await Artefact(opened, "ad", "ad-7", LOCAL).stream(stream)).versions[-1].data


def voice_tracks(*texts, **more):
    return [{"voiceId": ENGLISH[i % 4], "text": text, **more} for i, text in enumerate(texts)]


async def test_a_search_returns_ten_voices_by_default(call_tool):
    """A2, A6, A8, A11."""
    result = await call_tool("search_voices", language="thai")
    assert result["count"] == len(result["voices"]) == 10
    assert {voice["language"] for voice in result["voices"]} == {"thai"}
    assert all({"id", "name", "language", "provider"} <= set(voice) for voice in result["voices"])


@pytest.mark.parametrize(("count", "expected"), [(3, 3), (0, 1), (-4, 1)])
async def test_a_count_below_one_is_one(call_tool, count, expected):
    """A6."""
    assert (await call_tool("search_voices", language="en", count=count))["count"] == expected


async def test_an_unknown_gender_is_refused_and_its_case_is_ignored(call_tool):
    """A3."""
    assert (await call_tool("search_voices", language="en", gender="robot"))["type"] == "validation_error"
    assert (await call_tool("search_voices", language="en", gender="FEMALE"))["count"] >= 5


async def test_a_voice_draft_returns_its_version_and_status(call_tool, opened):
    """A13, A14, A18, A22."""
    result = await call_tool(
        "create_voice_draft", adId="ad-7", tracks=voice_tracks("Hello there.", "Come in.")
    )
    assert (result["versionId"], result["status"]) == ("v1", "draft")
    assert [track["id"] for track in (await newest_data(opened, "voices"))["voiceTracks"]] == [
        "track-0",
        "track-1",
    ]


@pytest.mark.parametrize(
    ("tracks", "words"),
    [
        (voice_tracks("a", "b", playAfter="track-1"), "not 'start' or an earlier track"),
        (voice_tracks("a", speed=3), "less than or equal to 2"),
        (voice_tracks("a", speed=0.1), "greater than or equal to 0.5"),
        (voice_tracks(""), "at least 1 character"),
        ([], "at least 1 item"),
    ],
)
async def test_invalid_tracks_are_refused_and_no_version_is_written(call_tool, opened, tracks, words):
    result = await call_tool("create_voice_draft", adId="ad-7", tracks=tracks)
    assert words in result["error"]
    assert not (await Artefact(opened, "ad", "ad-7", LOCAL).stream("voices")).versions


async def test_music_has_the_provider_loudly_and_the_spots_length_by_default(call_tool, opened):
    """A15, A-R18."""
    await call_tool("create_music_draft", adId="ad-7", prompt="slow jazz")
    assert await newest_data(opened, "music") == {
        "musicPrompt": "slow jazz",
        "musicProvider": "loudly",
        "provider": "loudly",
        "duration": 30.0,
    }
    assert (
        "mubert" in (await call_tool("create_music_draft", adId="ad-7", prompt="x", provider="suno"))["error"]
    )


async def test_effects_have_defaults_and_limits(call_tool, opened):
    """A16, A17, A-R4, A-R5."""
    await call_tool("create_voice_draft", adId="ad-7", tracks=voice_tracks("Hello.", "Bye."))
    await call_tool("create_sfx_draft", adId="ad-7", prompts=[{"description": "door bell"}])
    [effect] = (await newest_data(opened, "sfx"))["soundFxPrompts"]
    assert effect == {
        "description": "door bell",
        "placement": {"type": "end"},
        "duration": 3.0,
        "overlap": 0.0,
        "playAfter": "end",
    }
    for prompt, words in (
        ({"description": "x", "duration": 31}, "less than or equal to 30"),
        ({"description": "x", "duration": 0}, "greater than 0"),
        ({"description": "x", "placement": {"type": "afterVoice", "index": 2}}, "valid range is 0 to 1"),
        ({"description": "x", "placement": {"type": "afterVoice"}}, "valid range is 0 to 1"),
        ({"description": "x", "placement": {"type": "middle"}}, "placement.type"),
    ):
        assert words in (await call_tool("create_sfx_draft", adId="ad-7", prompts=[prompt]))["error"]
    assert (await call_tool("create_sfx_draft", adId="ad-7", prompts=[]))["versionId"] == "v2"


async def test_the_state_of_a_new_ad_has_no_streams(call_tool):
    """A19."""
    result = await call_tool("get_current_state", adId="ad-7")
    assert not {"voices", "music", "sfx"} & set(result)
    assert result["ad"] == {"language": "english", "spotSeconds": 30.0, "genders": {}}


async def test_the_state_of_an_ad_shows_the_newest_versions_with_their_data(call_tool, opened):
    """A19, A20, A69, A-R8."""
    await call_tool("create_voice_draft", adId="ad-7", tracks=voice_tracks("Hello."))
    for prompt in ("slow jazz", "fast jazz"):
        await call_tool("create_music_draft", adId="ad-7", prompt=prompt)
    await Artefact(opened, "ad", "ad-7", LOCAL).activate("music", "v1")
    result = await call_tool("get_current_state", adId="ad-7")
    assert "sfx" not in result
    assert result["voices"]["summary"] == "1 voice tracks"
    music = result["music"]
    assert (music["versionId"], music["status"], music["activeVersionId"]) == ("v2", "draft", "v1")
    assert music["data"]["musicPrompt"] == "fast jazz"
    assert [(version["versionId"], version["status"]) for version in music["versions"]] == [
        ("v1", "frozen"),
        ("v2", "draft"),
    ]
    assert result["timeline"]["fits"]


async def test_the_state_of_an_ad_lists_older_versions_without_data(call_tool):
    for i in range(7):
        await call_tool("create_music_draft", adId="ad-7", prompt=f"take {i}")
    versions = (await call_tool("get_current_state", adId="ad-7"))["music"]["versions"]
    assert [version["versionId"] for version in versions] == [f"v{i}" for i in range(1, 8)]
    assert ["data" in version for version in versions] == [False] * 2 + [True] * 4 + [False]


async def test_the_state_of_an_ad_lists_the_ten_newest_versions_and_counts_the_others(call_tool):
    for i in range(23):
        await call_tool("create_music_draft", adId="ad-7", prompt=f"take {i}")
    music = (await call_tool("get_current_state", adId="ad-7"))["music"]
    assert [version["versionId"] for version in music["versions"]] == [f"v{i}" for i in range(14, 24)]
    assert music["earlierVersions"] == 13


async def test_a_version_with_earlier_data_has_that_version_as_its_parent(call_tool, opened):
    for prompt in ("slow jazz", "fast jazz", "slow jazz"):
        await call_tool("create_music_draft", adId="ad-7", prompt=prompt)
    versions = (await Artefact(opened, "ad", "ad-7", LOCAL).stream("music")).versions
    assert [version.parent for version in versions] == [None, "v1", "v1"]


async def test_a_script_is_timed_by_the_language_of_its_voices(call_tool):
    """The ad may change its language in the middle of a conversation."""
    polish = [{"voiceId": POLISH[0], "text": "Jedna kawa, dwa rogale i dobry dzień dla całej rodziny"}]
    english = [{"voiceId": ENGLISH[0], "text": "Jedna kawa, dwa rogale i dobry dzień dla całej rodziny"}]
    slow = await call_tool("create_voice_draft", adId="ad-7", tracks=polish)
    fast = await call_tool("create_voice_draft", adId="ad-7", tracks=english)
    assert slow["timeline"]["durationSeconds"] > fast["timeline"]["durationSeconds"]


async def test_a_search_returns_an_object_with_and_without_results(call_tool):
    """A-R3: never a bare array."""
    result, empty = (
        await call_tool("search_voices", language="th"),
        await call_tool("search_voices", language="klingon"),
    )
    assert isinstance(result["voices"], list)
    assert (empty["voices"], empty["count"]) == ([], 0)


async def test_another_voice_for_a_script_that_does_not_fit_changes_no_words(call_tool, opened):
    await call_tool("create_voice_draft", adId="ad-7", tracks=voice_tracks("One two three four five. " * 14))
    before = (await newest_data(opened, "voices"))["voiceTracks"]
    await call_tool("create_sfx_draft", adId="ad-7", prompts=[{"description": "horn", "duration": 20}])
    recast = [{**before[0], "voiceId": ENGLISH[1]}]
    result = await call_tool(
        "create_voice_draft",
        adId="ad-7",
        tracks=[{key: recast[0][key] for key in ("voiceId", "text", "speed")}],
    )
    assert not result["timeline"]["fits"]
    assert "tightened" not in result
    assert (await newest_data(opened, "voices"))["voiceTracks"] == recast


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("alloy", "openai/alloy@english"),
        ("google/Alloy", "openai/alloy@english"),
        ("some_female_voice", "female"),
        ("voice-male-1", "male"),
        ("nobody", ""),
    ],
)
async def test_an_unknown_voice_becomes_the_nearest_one_with_a_note(call_tool, opened, named, expected):
    """A7: small models name voices that do not exist."""
    known = voice_tracks("Hello.")[0]
    result = await call_tool(
        "create_voice_draft", adId="ad-7", tracks=[known, *({"voiceId": named, "text": "Hi."},) * 2]
    )
    first, second, third = (await newest_data(opened, "voices"))["voiceTracks"]
    assert first["voiceId"] == known["voiceId"]
    assert second["voiceId"] == third["voiceId"] != known["voiceId"]
    voice = voices.find(second["voiceId"])
    assert voice
    assert expected in {voice.id, voice.gender, ""}
    [note] = result["recast"]
    assert note.startswith(f"there is no voice {named!r}; {voice.id}")
