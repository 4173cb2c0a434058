"""The five tools of an audio ad, through the guard (A1-A23)."""

import pytest

from callsheet.state.owners import LOCAL
from callsheet.state.plan import Step
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.tools import REGISTRY
from callsheet.tools.ads import voices
from callsheet.tools.guard import guard
from callsheet.tools.guard.call import Scope

ENGLISH = [voice.id for voice in voices.search("english", count=4)]
POLISH = [voice.id for voice in voices.search("polish", count=2)]
FACTS = {"language": "english", "market": "US", "spotSeconds": "30"}


@pytest.fixture
def use(opened):
    count = iter(range(1000))

    async def use(name, **params):
        writes = sorted(REGISTRY[name].writes)
        number = next(count)
        step = Step(
            id=f"c{number}", tool=name, display="", params=params, dependencies=[], reads=[], writes=writes
        )
        scope = Scope("local", "t", "ad", "ad-7", run=f"run-{number}", task="task", epoch=1, facts=FACTS)
        return (await guard.call(REGISTRY, step, scope)).output

    return use


async def newest(opened, stream):
    return (await Artefact(opened, "ad", "ad-7", LOCAL).stream(stream)).versions[-1].data


def say(*texts, **more):
    return [{"voiceId": ENGLISH[i % 4], "text": text, **more} for i, text in enumerate(texts)]


async def test_ten_thai_voices_are_found_by_default(use):
    """A2, A6, A8, A11."""
    found = await use("search_voices", language="thai")
    assert found["count"] == len(found["voices"]) == 10
    assert {voice["language"] for voice in found["voices"]} == {"thai"}
    assert all({"id", "name", "language", "provider"} <= set(voice) for voice in found["voices"])


@pytest.mark.parametrize(("count", "got"), [(3, 3), (0, 1), (-4, 1)])
async def test_the_count_is_kept_between_one_and_fifty(use, count, got):
    """A6."""
    assert (await use("search_voices", language="en", count=count))["count"] == got


async def test_a_filter_that_is_no_gender_is_refused(use):
    """A3."""
    assert (await use("search_voices", language="en", gender="robot"))["type"] == "validation_error"
    assert (await use("search_voices", language="en", gender="FEMALE"))["count"] >= 5


async def test_a_draft_says_its_version_and_that_it_is_a_draft(use, opened):
    """A13, A14, A18, A22: the tool writes, and answers with the version alone."""
    made = await use("create_voice_draft", adId="ad-7", tracks=say("Hello there.", "Come in."))
    assert (made["versionId"], made["status"]) == ("v1", "draft")
    assert [track["id"] for track in (await newest(opened, "voices"))["voiceTracks"]] == [
        "track-0",
        "track-1",
    ]


@pytest.mark.parametrize(
    ("tracks", "words"),
    [
        ([{"voiceId": "nobody", "text": "x"}], "not in the catalogue"),
        (say("a", "b", playAfter="track-1"), "not 'start' or an earlier track"),
        (say("a", speed=3), "less than or equal to 2"),
        (say("a", speed=0.1), "greater than or equal to 0.5"),
        (say(""), "at least 1 character"),
        ([], "at least 1 item"),
    ],
)
async def test_tracks_that_cannot_be_spoken_are_refused_and_nothing_is_written(use, opened, tracks, words):
    refused = await use("create_voice_draft", adId="ad-7", tracks=tracks)
    assert words in refused["error"]
    assert not (await Artefact(opened, "ad", "ad-7", LOCAL).stream("voices")).versions


async def test_music_has_loudly_and_the_spots_length_by_default(use, opened):
    """A15, A-R18."""
    await use("create_music_draft", adId="ad-7", prompt="slow jazz")
    assert await newest(opened, "music") == {
        "musicPrompt": "slow jazz",
        "musicProvider": "loudly",
        "provider": "loudly",
        "duration": 30.0,
    }
    assert "mubert" in (await use("create_music_draft", adId="ad-7", prompt="x", provider="suno"))["error"]


async def test_effects_have_their_defaults_and_their_limits(use, opened):
    """A16, A17, A-R4, A-R5."""
    await use("create_voice_draft", adId="ad-7", tracks=say("Hello.", "Bye."))
    await use("create_sfx_draft", adId="ad-7", prompts=[{"description": "door bell"}])
    [effect] = (await newest(opened, "sfx"))["soundFxPrompts"]
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
        assert words in (await use("create_sfx_draft", adId="ad-7", prompts=[prompt]))["error"]
    assert (await use("create_sfx_draft", adId="ad-7", prompts=[]))["versionId"] == "v2"


async def test_the_state_of_a_new_ad_has_no_streams(use):
    """A19."""
    found = await use("get_current_state", adId="ad-7")
    assert not {"voices", "music", "sfx"} & set(found)
    assert found["ad"] == {"language": "english", "spotSeconds": 30.0}


async def test_the_state_of_an_ad_shows_the_newest_versions_with_their_content(use, opened):
    """A19, A20, A69, A-R8."""
    await use("create_voice_draft", adId="ad-7", tracks=say("Hello."))
    for prompt in ("slow jazz", "fast jazz"):
        await use("create_music_draft", adId="ad-7", prompt=prompt)
    await Artefact(opened, "ad", "ad-7", LOCAL).activate("music", "v1")
    found = await use("get_current_state", adId="ad-7")
    assert "sfx" not in found
    assert found["voices"]["summary"] == "1 voice tracks"
    music = found["music"]
    assert (music["versionId"], music["status"], music["activeVersionId"]) == ("v2", "draft", "v1")
    assert music["data"]["musicPrompt"] == "fast jazz"
    assert [(version["versionId"], version["status"]) for version in music["versions"]] == [
        ("v1", "frozen"),
        ("v2", "draft"),
    ]
    assert found["timeline"]["fits"]


async def test_older_versions_are_listed_without_their_content(use):
    for i in range(7):
        await use("create_music_draft", adId="ad-7", prompt=f"take {i}")
    listed = (await use("get_current_state", adId="ad-7"))["music"]["versions"]
    assert [one["versionId"] for one in listed] == [f"v{i}" for i in range(1, 8)]
    assert ["data" in one for one in listed] == [False] * 2 + [True] * 4 + [False]


async def test_of_many_versions_the_newest_are_listed_and_the_rest_counted(use):
    for i in range(23):
        await use("create_music_draft", adId="ad-7", prompt=f"take {i}")
    music = (await use("get_current_state", adId="ad-7"))["music"]
    assert [version["versionId"] for version in music["versions"]] == [f"v{i}" for i in range(14, 24)]
    assert music["earlierVersions"] == 13


async def test_what_is_brought_back_names_the_version_it_restores(use, opened):
    for prompt in ("slow jazz", "fast jazz", "slow jazz"):
        await use("create_music_draft", adId="ad-7", prompt=prompt)
    versions = (await Artefact(opened, "ad", "ad-7", LOCAL).stream("music")).versions
    assert [version.parent for version in versions] == [None, "v1", "v1"]


async def test_a_script_is_timed_in_the_language_its_cast_speaks(use):
    """The ad may change its language in the middle of a conversation."""
    polish = [{"voiceId": POLISH[0], "text": "Jedna kawa, dwa rogale i dobry dzień dla całej rodziny"}]
    english = [{"voiceId": ENGLISH[0], "text": "Jedna kawa, dwa rogale i dobry dzień dla całej rodziny"}]
    slow = await use("create_voice_draft", adId="ad-7", tracks=polish)
    fast = await use("create_voice_draft", adId="ad-7", tracks=english)
    assert slow["timeline"]["durationSeconds"] > fast["timeline"]["durationSeconds"]


async def test_a_search_answers_with_an_object_whether_it_finds_or_not(use):
    """A-R3: never a bare array."""
    found, nothing = await use("search_voices", language="th"), await use("search_voices", language="klingon")
    assert isinstance(found["voices"], list)
    assert (nothing["voices"], nothing["count"]) == ([], 0)


async def test_words_that_were_there_before_are_never_tightened(use, opened):
    """Another voice for a script that does not fit changes the voice alone, and so does going back."""
    await use("create_voice_draft", adId="ad-7", tracks=say("One two three four five. " * 14))
    before = (await newest(opened, "voices"))["voiceTracks"]
    await use("create_sfx_draft", adId="ad-7", prompts=[{"description": "horn", "duration": 20}])
    recast = [{**before[0], "voiceId": ENGLISH[1]}]
    made = await use(
        "create_voice_draft",
        adId="ad-7",
        tracks=[{key: recast[0][key] for key in ("voiceId", "text", "speed")}],
    )
    assert not made["timeline"]["fits"]
    assert "tightened" not in made
    assert (await newest(opened, "voices"))["voiceTracks"] == recast
