"""Versions of an ad's streams, made and changed by people (A30-A35)."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from callsheet.server.ads.replies import Version, VersionActivated, VersionList, VersionWritten
from tests.doubles.served import VOICE, chat_about_ad, generate_ad, served_app

VOICES = {
    "voiceTracks": [
        {"voiceId": VOICE, "text": "Fresh bread."},
        {"voiceId": VOICE, "text": "Every morning.", "playAfter": "track-0", "overlap": -0.5, "speed": 1.2},
    ]
}


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that has one ad."""
    async with served_app(valkey_url) as one:
        await generate_ad(one)
        yield one


async def ok(
    client: httpx.AsyncClient, method: str, path: str, body: object = None, status: int = 200
) -> Any:
    reply = await client.request(method, f"/api/ads/ad-1{path}", json=body)
    assert reply.status_code == status, reply.text
    return reply.json()


async def refusal(client: httpx.AsyncClient, method: str, path: str, body: object, status: int) -> str:
    """The error, after checking that the streams are as before."""
    before = [await ok(client, "GET", f"/{stream}") for stream in ("voices", "music", "sfx")]
    reply = await client.request(method, f"/api/ads/ad-1{path}", json=body)
    assert reply.status_code == status, reply.text
    assert [await ok(client, "GET", f"/{stream}") for stream in ("voices", "music", "sfx")] == before
    return str(reply.json()["error"])


async def test_a_version_is_shown_with_its_data_nested_and_flat(client: httpx.AsyncClient) -> None:
    """A30, A31: `.voiceTracks`, `.musicPrompt`, and who made it when."""
    for stream, field in (("voices", "voiceTracks"), ("music", "musicPrompt"), ("sfx", "soundFxPrompts")):
        found = await ok(client, "GET", f"/{stream}/v1")
        TypeAdapter(Version).validate_python(found)
        assert found[field] == found["data"][field]
        assert (found["id"], found["status"], found["createdBy"], found["parent"]) == (
            "v1",
            "draft",
            "llm",
            None,
        )
        assert found["createdAt"].endswith("+00:00")


async def test_a_version_by_hand_is_a_new_draft_of_its_stream_alone(client: httpx.AsyncClient) -> None:
    """A32, A33, A-R17: voices v2 by hand, v1 frozen and unchanged, music where it was."""
    v1 = await ok(client, "GET", "/voices/v1")
    made = await ok(client, "POST", "/voices", VOICES, 201)
    TypeAdapter(VersionWritten).validate_python(made)
    assert (made["stream"], made["versionId"], made["status"]) == ("voices", "v2", "draft")
    assert [span["id"] for span in made["timeline"]["voices"]] == ["track-0", "track-1"]
    assert set(made["mixer"]["voices"]) == {"track-0", "track-1"}
    listed = await ok(client, "GET", "/voices")
    TypeAdapter(VersionList).validate_python(listed)
    assert [(version["id"], version["status"], version["createdBy"]) for version in listed["versions"]] == [
        ("v1", "frozen", "llm"),
        ("v2", "draft", "local"),
    ]
    assert await ok(client, "GET", "/voices/v1") == {**v1, "status": "frozen"}
    assert [version["id"] for version in (await ok(client, "GET", "/music"))["versions"]] == ["v1"]


async def test_tracks_are_stored_as_the_tools_store_them(client: httpx.AsyncClient) -> None:
    """A14, A78."""
    await ok(client, "POST", "/voices", VOICES, 201)
    assert (await ok(client, "GET", "/voices/v2"))["voiceTracks"] == [
        {
            "id": "track-0",
            "voiceId": VOICE,
            "text": "Fresh bread.",
            "playAfter": "start",
            "overlap": 0,
            "speed": 1,
        },
        {
            "id": "track-1",
            "voiceId": VOICE,
            "text": "Every morning.",
            "playAfter": "track-0",
            "overlap": -0.5,
            "speed": 1.2,
        },
    ]


async def test_the_language_of_a_script_is_kept_through_a_change(client: httpx.AsyncClient) -> None:
    """A12, A51: it decides the speaking rate."""
    made = await ok(client, "POST", "/voices", VOICES | {"language": "th-TH"}, 201)
    name = made["versionId"]
    assert (await ok(client, "GET", f"/voices/{name}"))["data"]["language"] == "thai"
    change = {"voiceTracks": {"track-0": {"speed": 0.9}}}
    made = await ok(client, "PATCH", f"/voices/{name}", change)
    assert (await ok(client, "GET", f"/voices/{made['versionId']}"))["data"]["language"] == "thai"
    assert "not known" in await refusal(client, "POST", "/voices", VOICES | {"language": "klingon"}, 400)


async def test_music_is_stored_under_both_names_of_its_provider(client: httpx.AsyncClient) -> None:
    """A15, A-R18; the length is the spot's where none is given."""
    await ok(client, "POST", "/music", {"musicPrompt": "slow jazz", "provider": "mubert"}, 201)
    assert (await ok(client, "GET", "/music/v2"))["data"] == {
        "musicPrompt": "slow jazz",
        "musicProvider": "mubert",
        "provider": "mubert",
        "duration": 30,
    }


async def test_effects_get_their_defaults_and_their_derived_place(client: httpx.AsyncClient) -> None:
    """A17, A-R5."""
    await ok(client, "POST", "/voices", VOICES, 201)
    placed = {
        "description": "bell",
        "placement": {"type": "afterVoice", "index": 1},
        "duration": 1,
        "overlap": 0.5,
    }
    await ok(client, "POST", "/sfx", {"soundFxPrompts": [{"description": "whoosh"}, placed]}, 201)
    assert (await ok(client, "GET", "/sfx/v2"))["soundFxPrompts"] == [
        {
            "description": "whoosh",
            "placement": {"type": "end"},
            "duration": 3,
            "overlap": 0,
            "playAfter": "end",
        },
        {**placed, "playAfter": "track-1"},
    ]


async def test_what_was_read_can_be_sent_back(client: httpx.AsyncClient) -> None:
    for stream in ("voices", "music", "sfx"):
        data = (await ok(client, "GET", f"/{stream}/v1"))["data"]
        await ok(client, "POST", f"/{stream}", data, 201)
        assert (await ok(client, "GET", f"/{stream}/v2"))["data"] == data


async def test_a_change_makes_a_new_version_whose_parent_is_the_changed_one(
    client: httpx.AsyncClient,
) -> None:
    """A33."""
    await ok(client, "POST", "/music", {"musicPrompt": "slow jazz"}, 201)
    made = await ok(client, "PATCH", "/music/v1", {"duration": 12.5})
    assert made["versionId"] == "v3"
    v1, v3 = [await ok(client, "GET", f"/music/{version}") for version in ("v1", "v3")]
    assert (v3["parent"], v3["duration"]) == ("v1", 12.5)
    assert v3["musicPrompt"] == v1["musicPrompt"]
    assert made["timeline"]["music"]["end"] == 12.5


async def test_one_track_or_effect_can_be_changed_alone(client: httpx.AsyncClient) -> None:
    await ok(client, "POST", "/voices", VOICES, 201)
    await ok(client, "PATCH", "/voices/v2", {"voiceTracks": {"track-1": {"text": "Each dawn."}}})
    before, after = [(await ok(client, "GET", f"/voices/{one}"))["voiceTracks"] for one in ("v2", "v3")]
    assert after == [before[0], {**before[1], "text": "Each dawn."}]
    effects = {"soundFxPrompts": [{"description": "a"}, {"description": "b"}]}
    await ok(client, "POST", "/sfx", effects, 201)
    await ok(client, "PATCH", "/sfx/v2", {"soundFxPrompts": {"1": {"duration": 2}}})
    assert [effect["duration"] for effect in (await ok(client, "GET", "/sfx/v3"))["soundFxPrompts"]] == [3, 2]


async def test_the_music_provider_can_be_changed_by_either_name(client: httpx.AsyncClient) -> None:
    """A-R18: one name changed is both changed."""
    for name in ("musicProvider", "provider"):
        await ok(client, "PATCH", "/music/v1", {name: "mubert"})
        newest = (await ok(client, "GET", "/music"))["versions"][-1]["id"]
        found = await ok(client, "GET", f"/music/{newest}")
        assert (found["musicProvider"], found["provider"]) == ("mubert", "mubert")


async def test_tracks_keep_their_bonds_when_they_are_put_in_another_order(client: httpx.AsyncClient) -> None:
    """A-R7: names follow their tracks, so nothing is mistimed without a word."""
    named = [
        {"id": "a", "voiceId": VOICE, "text": "One.", "playAfter": "start"},
        {"id": "b", "voiceId": VOICE, "text": "Two.", "playAfter": "a"},
        {"id": "c", "voiceId": VOICE, "text": "Three.", "playAfter": "a"},
    ]
    await ok(client, "POST", "/voices", {"voiceTracks": [named[0], named[2], named[1]]}, 201)
    stored = (await ok(client, "GET", "/voices/v2"))["voiceTracks"]
    assert [(one["id"], one["text"], one["playAfter"]) for one in stored] == [
        ("track-0", "One.", "start"),
        ("track-1", "Three.", "track-0"),
        ("track-2", "Two.", "track-0"),
    ]
    left_out = {"voiceTracks": [{**named[1], "playAfter": "start"}, {**named[2], "playAfter": "a"}]}
    assert "not among the tracks sent" in await refusal(client, "POST", "/voices", left_out, 400)


async def test_a_script_of_a_person_is_never_shortened(client: httpx.AsyncClient) -> None:
    """The reply says that it does not fit, and every word is kept."""
    long = " ".join(["Every word of this is meant."] * 40)
    made = await ok(client, "POST", "/voices", {"voiceTracks": [{"voiceId": VOICE, "text": long}]}, 201)
    assert made["timeline"]["fits"] is False
    assert (await ok(client, "GET", "/voices/v2"))["voiceTracks"][0]["text"] == long


async def test_a_draft_counts_only_once_it_is_activated(client: httpx.AsyncClient) -> None:
    """A34, A35: a draft is not active until a person says so; any version may be, also an older one."""
    assert (await ok(client, "GET", "/voices"))["active"] is None
    await ok(client, "POST", "/voices", VOICES, 201)
    told = await ok(client, "POST", "/voices/v1/activate")
    TypeAdapter(VersionActivated).validate_python(told)
    assert (told["active"], told["status"]) == ("v1", "active")
    assert (await ok(client, "GET", "/voices"))["active"] == "v1"
    streams = (await ok(client, "GET", ""))["streams"]["voices"]
    assert (streams["active"]["id"], streams["newest"]["id"], streams["count"]) == ("v1", "v2", 2)


async def test_the_timeline_follows_the_newest_or_the_active_versions(client: httpx.AsyncClient) -> None:
    await ok(client, "POST", "/voices", VOICES, 201)
    newest = await ok(client, "GET", "/timeline")
    assert [span["voiceId"] for span in newest["voices"]] == [VOICE, VOICE]
    assert newest["music"]
    assert (await ok(client, "GET", "/timeline?versions=active"))["voices"] == []
    await ok(client, "POST", "/voices/v1/activate")
    active = await ok(client, "GET", "/timeline?versions=active")
    assert [span["voiceId"] for span in active["voices"]] != [VOICE, VOICE]
    assert active.keys() == {"spotSeconds", "durationSeconds", "fits", "voices", "sfx"}


async def test_a_clone_holds_the_same_under_a_number_of_its_own(client: httpx.AsyncClient) -> None:
    made = await ok(client, "POST", "/sfx/v1/clone", status=201)
    assert made["versionId"] == "v2"
    v1, v2 = [await ok(client, "GET", f"/sfx/{version}") for version in ("v1", "v2")]
    assert v2["data"] == v1["data"]
    assert (v2["parent"], v2["status"], v2["createdBy"]) == ("v1", "draft", "local")


async def test_only_a_draft_that_is_not_active_can_be_deleted(client: httpx.AsyncClient) -> None:
    """A33: history stays, and no number is used twice."""
    await ok(client, "POST", "/music", {"musicPrompt": "slow jazz"}, 201)
    assert "frozen" in await refusal(client, "DELETE", "/music/v1", None, 409)
    await ok(client, "POST", "/music/v2/activate")
    assert "active" in await refusal(client, "DELETE", "/music/v2", None, 409)
    await ok(client, "POST", "/music/v1/activate")
    left = await ok(client, "DELETE", "/music/v2")
    assert [version["id"] for version in left["versions"]] == ["v1"]
    assert (await ok(client, "POST", "/music/v1/clone", status=201))["versionId"] == "v3"


async def test_a_chat_builds_on_what_a_person_changed(client: httpx.AsyncClient) -> None:
    """A19, A64: the model looks at what is really there."""
    prompt = "slow jazz with a muted trumpet"
    await ok(client, "POST", "/music", {"musicPrompt": prompt}, 201)
    assert (await chat_about_ad(client, "Make the music more upbeat"))["drafts"] == {"music": "v3"}
    assert "trumpet" in (await ok(client, "GET", "/music/v3"))["musicPrompt"]


def one_track(**changed: object) -> dict[str, Any]:
    return {"voiceTracks": [{"voiceId": VOICE, "text": "Hello.", **changed}]}


def two_tracks(first: str, second: str) -> dict[str, Any]:
    texts = (first, second)
    return {"voiceTracks": [{"voiceId": VOICE, "text": "Hello.", "playAfter": after} for after in texts]}


def one_effect(**changed: object) -> dict[str, Any]:
    return {"soundFxPrompts": [{"description": "bell", **changed}]}


HAND_REFUSALS: list[tuple[str, dict[str, Any], int, str]] = [
    ("voices", {}, 400, "'voiceTracks' is missing"),
    ("voices", {"voiceTracks": []}, 400, "'voiceTracks': list should have at least 1 item"),
    ("voices", {"voiceTracks": 5}, 422, "'voiceTracks'"),
    ("voices", {"voiceTracks": [{"text": "Hello."}]}, 400, "'voiceTracks.0.voiceId' is missing"),
    ("voices", one_track(voiceId="acme/nobody"), 400, "voice 'acme/nobody' is not in the catalogue"),
    ("voices", one_track(text=""), 400, "'voiceTracks.0.text'"),
    ("voices", one_track(text="x" * 10_001), 400, "at most 10000"),
    ("voices", one_track(text=5), 422, "'voiceTracks.0.text'"),
    ("voices", one_track(speed=0.4), 400, "'voiceTracks.0.speed'"),
    ("voices", one_track(speed=2.1), 400, "'voiceTracks.0.speed'"),
    ("voices", one_track(overlap=61), 400, "'voiceTracks.0.overlap'"),
    ("voices", one_track(pitch=2), 400, "'voiceTracks.0.pitch' is not a field"),
    ("voices", one_track(playAfter="track-0"), 400, "plays after 'track-0'"),
    ("voices", {"voiceTracks": one_track(id="a")["voiceTracks"] * 2}, 400, "two tracks have one id"),
    ("voices", two_tracks("track-1", "track-0"), 400, "plays after 'track-1'"),
    ("voices", two_tracks("start", "track-7"), 400, "plays after 'track-7'"),
    ("voices", one_track(text="x" * 41) | {"musicPrompt": "x"}, 400, "'musicPrompt' is not a field"),
    ("voices", {"voiceTracks": one_track()["voiceTracks"] * 41}, 400, "at most 40"),
    ("music", {"musicPrompt": ""}, 400, "'musicPrompt'"),
    ("music", {"musicPrompt": "x", "musicProvider": "acme"}, 400, "'musicProvider'"),
    ("music", {"musicPrompt": "x", "musicProvider": "mubert", "provider": "loudly"}, 400, "differ"),
    ("music", {"musicPrompt": "x", "duration": 0}, 400, "'duration'"),
    ("music", {"musicPrompt": "x", "duration": "long"}, 422, "'duration'"),
    ("sfx", one_effect(duration=0), 400, "duration"),
    ("sfx", one_effect(duration=-1), 400, "duration"),
    ("sfx", one_effect(duration=30.1), 400, "duration"),
    ("sfx", one_effect(placement={"type": "middle"}), 400, "placement.type"),
    ("sfx", one_effect(placement={"type": "afterVoice"}), 400, "placed after voice None"),
    ("sfx", one_effect(placement={"type": "afterVoice", "index": 99}), 400, "the valid range is 0 to"),
    ("sfx", one_effect(placement={"type": "afterVoice", "index": -1}), 400, "placement.index"),
    ("sfx", one_effect(description=""), 400, "description"),
]


@pytest.mark.slow
async def test_what_the_tools_would_refuse_is_refused_to_people_too(
    client: httpx.AsyncClient,
) -> None:
    """A13, A-R4, A-R5, A-R7: the same rules for hands and models, and nothing is written."""
    for stream, data, status, words in HAND_REFUSALS:
        assert words in await refusal(client, "POST", f"/{stream}", data, status)


PATCH_REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("/voices/v1", {"voiceTracks": {"track-9": {"text": "x"}}}, "no entry 'track-9'"),
    ("/voices/v1", {"voiceTracks": {"track-0": "x"}}, "no entry 'track-0' to change into"),
    ("/voices/v1", {"voiceTracks": {"track-0": {"voiceId": "acme/nobody"}}}, "is not in the catalogue"),
    ("/voices/v1", {"voiceTracks": {"track-0": {"playAfter": "track-1"}}}, "plays after"),
    ("/music/v1", {"tempo": 90}, "'tempo' is not a field"),
    ("/music/v1", {"musicPrompt": ""}, "'musicPrompt'"),
    ("/sfx/v1", {"soundFxPrompts": {"99": {"duration": 1}}}, "no entry '99'"),
    ("/music/v1", {}, "nothing to change"),
]


async def test_a_change_that_breaks_a_rule_makes_no_version(client: httpx.AsyncClient) -> None:
    for path, patch, words in PATCH_REFUSALS:
        assert words in await refusal(client, "PATCH", path, patch, 400)


async def test_a_version_there_is_not_can_be_neither_read_nor_used(client: httpx.AsyncClient) -> None:
    for method, part, body in (
        ("GET", "", None),
        ("PATCH", "", VOICES),
        ("DELETE", "", None),
        ("POST", "/activate", None),
        ("POST", "/clone", None),
    ):
        error = await refusal(client, method, f"/voices/v9{part}", body, 404)
        assert "no voices version 'v9'" in error
