"""Versions of an ad's streams, written and changed by people (A30-A35)."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from callsheet.server.ads.schemas import VersionActivated, VersionList, VersionReply, VersionWritten
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
    async with served_app(valkey_url) as http:
        await generate_ad(http)
        yield http


async def request_ad(
    client: httpx.AsyncClient, method: str, path: str, body: object = None, status: int = 200
) -> Any:
    """Return the body of a reply about the ad, which must have this status."""
    reply = await client.request(method, f"/api/ads/ad-1{path}", json=body)
    assert reply.status_code == status, reply.text
    return reply.json()


async def refusal(client: httpx.AsyncClient, method: str, path: str, body: object, status: int) -> str:
    """Return the error of a refused request, which must change no stream."""
    before = [await request_ad(client, "GET", f"/{stream}") for stream in ("voices", "music", "sfx")]
    reply = await client.request(method, f"/api/ads/ad-1{path}", json=body)
    assert reply.status_code == status, reply.text
    assert [await request_ad(client, "GET", f"/{stream}") for stream in ("voices", "music", "sfx")] == before
    return str(reply.json()["error"])


async def test_a_version_is_shown_with_its_data_nested_and_flat(client: httpx.AsyncClient) -> None:
    """A30, A31: `.voiceTracks`, `.musicPrompt`, with its author and time."""
    for stream, field in (("voices", "voiceTracks"), ("music", "musicPrompt"), ("sfx", "soundFxPrompts")):
        version = await request_ad(client, "GET", f"/{stream}/v1")
        TypeAdapter(VersionReply).validate_python(version)
        assert version[field] == version["data"][field]
        assert (version["id"], version["status"], version["createdBy"], version["parent"]) == (
            "v1",
            "draft",
            "llm",
            None,
        )
        assert version["createdAt"].endswith("+00:00")


async def test_a_version_written_by_hand_is_a_new_draft_of_its_stream_only(client: httpx.AsyncClient) -> None:
    """A32, A33, A-R17: v1 is frozen and unchanged, other streams have no new version."""
    v1 = await request_ad(client, "GET", "/voices/v1")
    written = await request_ad(client, "POST", "/voices", VOICES, 201)
    TypeAdapter(VersionWritten).validate_python(written)
    assert (written["stream"], written["versionId"], written["status"]) == ("voices", "v2", "draft")
    assert [span["id"] for span in written["timeline"]["voices"]] == ["track-0", "track-1"]
    assert set(written["mixer"]["voices"]) == {"track-0", "track-1"}
    stream = await request_ad(client, "GET", "/voices")
    TypeAdapter(VersionList).validate_python(stream)
    assert [(version["id"], version["status"], version["createdBy"]) for version in stream["versions"]] == [
        ("v1", "frozen", "llm"),
        ("v2", "draft", "local"),
    ]
    assert await request_ad(client, "GET", "/voices/v1") == {**v1, "status": "frozen"}
    assert [version["id"] for version in (await request_ad(client, "GET", "/music"))["versions"]] == ["v1"]


async def test_tracks_written_by_hand_get_the_same_defaults_as_those_of_tools(
    client: httpx.AsyncClient,
) -> None:
    """A14, A78."""
    await request_ad(client, "POST", "/voices", VOICES, 201)
    assert (await request_ad(client, "GET", "/voices/v2"))["voiceTracks"] == [
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


async def test_the_language_of_a_script_is_kept_by_a_change(client: httpx.AsyncClient) -> None:
    """A12, A51: it decides the speaking rate."""
    written = await request_ad(client, "POST", "/voices", VOICES | {"language": "th-TH"}, 201)
    version_id = written["versionId"]
    assert (await request_ad(client, "GET", f"/voices/{version_id}"))["data"]["language"] == "thai"
    change = {"voiceTracks": {"track-0": {"speed": 0.9}}}
    written = await request_ad(client, "PATCH", f"/voices/{version_id}", change)
    assert (await request_ad(client, "GET", f"/voices/{written['versionId']}"))["data"]["language"] == "thai"
    assert "not known" in await refusal(client, "POST", "/voices", VOICES | {"language": "klingon"}, 422)


async def test_music_is_stored_with_its_provider_under_both_field_names(client: httpx.AsyncClient) -> None:
    """A15, A-R18: without a length, it has the spot's."""
    await request_ad(client, "POST", "/music", {"musicPrompt": "slow jazz", "provider": "mubert"}, 201)
    assert (await request_ad(client, "GET", "/music/v2"))["data"] == {
        "musicPrompt": "slow jazz",
        "musicProvider": "mubert",
        "provider": "mubert",
        "duration": 30,
    }


async def test_effects_written_by_hand_get_defaults_and_their_play_after(client: httpx.AsyncClient) -> None:
    """A17, A-R5."""
    await request_ad(client, "POST", "/voices", VOICES, 201)
    placed = {
        "description": "bell",
        "placement": {"type": "afterVoice", "index": 1},
        "duration": 1,
        "overlap": 0.5,
    }
    await request_ad(client, "POST", "/sfx", {"soundFxPrompts": [{"description": "whoosh"}, placed]}, 201)
    assert (await request_ad(client, "GET", "/sfx/v2"))["soundFxPrompts"] == [
        {
            "description": "whoosh",
            "placement": {"type": "end"},
            "duration": 3,
            "overlap": 0,
            "playAfter": "end",
        },
        {**placed, "playAfter": "track-1"},
    ]


async def test_the_data_of_a_version_can_be_written_back_unchanged(client: httpx.AsyncClient) -> None:
    for stream in ("voices", "music", "sfx"):
        data = (await request_ad(client, "GET", f"/{stream}/v1"))["data"]
        await request_ad(client, "POST", f"/{stream}", data, 201)
        assert (await request_ad(client, "GET", f"/{stream}/v2"))["data"] == data


async def test_a_change_makes_a_new_version_whose_parent_is_the_changed_one(
    client: httpx.AsyncClient,
) -> None:
    """A33."""
    await request_ad(client, "POST", "/music", {"musicPrompt": "slow jazz"}, 201)
    written = await request_ad(client, "PATCH", "/music/v1", {"duration": 12.5})
    assert written["versionId"] == "v3"
    v1, v3 = [await request_ad(client, "GET", f"/music/{version}") for version in ("v1", "v3")]
    assert (v3["parent"], v3["duration"]) == ("v1", 12.5)
    assert v3["musicPrompt"] == v1["musicPrompt"]
    assert written["timeline"]["music"]["end"] == 12.5


async def test_one_track_or_effect_can_be_changed_alone(client: httpx.AsyncClient) -> None:
    await request_ad(client, "POST", "/voices", VOICES, 201)
    await request_ad(client, "PATCH", "/voices/v2", {"voiceTracks": {"track-1": {"text": "Each dawn."}}})
    before, after = [
        (await request_ad(client, "GET", f"/voices/{version}"))["voiceTracks"] for version in ("v2", "v3")
    ]
    assert after == [before[0], {**before[1], "text": "Each dawn."}]
    effects = {"soundFxPrompts": [{"description": "a"}, {"description": "b"}]}
    await request_ad(client, "POST", "/sfx", effects, 201)
    await request_ad(client, "PATCH", "/sfx/v2", {"soundFxPrompts": {"1": {"duration": 2}}})
    assert [
        effect["duration"] for effect in (await request_ad(client, "GET", "/sfx/v3"))["soundFxPrompts"]
    ] == [3, 2]


async def test_the_music_provider_can_be_changed_under_either_field_name(client: httpx.AsyncClient) -> None:
    """A-R18: both fields change."""
    for name in ("musicProvider", "provider"):
        await request_ad(client, "PATCH", "/music/v1", {name: "mubert"})
        newest = (await request_ad(client, "GET", "/music"))["versions"][-1]["id"]
        music = await request_ad(client, "GET", f"/music/{newest}")
        assert (music["musicProvider"], music["provider"]) == ("mubert", "mubert")


async def test_reordered_tracks_still_play_after_the_same_tracks(client: httpx.AsyncClient) -> None:
    """A-R7: their ids change, and the references with them."""
    tracks = [
        {"id": "a", "voiceId": VOICE, "text": "One.", "playAfter": "start"},
        {"id": "b", "voiceId": VOICE, "text": "Two.", "playAfter": "a"},
        {"id": "c", "voiceId": VOICE, "text": "Three.", "playAfter": "a"},
    ]
    await request_ad(client, "POST", "/voices", {"voiceTracks": [tracks[0], tracks[2], tracks[1]]}, 201)
    stored = (await request_ad(client, "GET", "/voices/v2"))["voiceTracks"]
    assert [(track["id"], track["text"], track["playAfter"]) for track in stored] == [
        ("track-0", "One.", "start"),
        ("track-1", "Three.", "track-0"),
        ("track-2", "Two.", "track-0"),
    ]
    incomplete = {"voiceTracks": [{**tracks[1], "playAfter": "start"}, {**tracks[2], "playAfter": "a"}]}
    assert "not among the tracks sent" in await refusal(client, "POST", "/voices", incomplete, 422)


async def test_a_script_that_is_too_long_is_stored_uncut(client: httpx.AsyncClient) -> None:
    """The reply says that it does not fit."""
    long_text = " ".join(["Every word of this is meant."] * 40)
    written = await request_ad(
        client, "POST", "/voices", {"voiceTracks": [{"voiceId": VOICE, "text": long_text}]}, 201
    )
    assert written["timeline"]["fits"] is False
    assert (await request_ad(client, "GET", "/voices/v2"))["voiceTracks"][0]["text"] == long_text


async def test_a_version_is_active_only_after_a_person_activates_it(client: httpx.AsyncClient) -> None:
    """A34, A35: any version can be, also an older one."""
    assert (await request_ad(client, "GET", "/voices"))["active"] is None
    await request_ad(client, "POST", "/voices", VOICES, 201)
    activated = await request_ad(client, "POST", "/voices/v1/activate")
    TypeAdapter(VersionActivated).validate_python(activated)
    assert (activated["active"], activated["status"]) == ("v1", "active")
    assert (await request_ad(client, "GET", "/voices"))["active"] == "v1"
    streams = (await request_ad(client, "GET", ""))["streams"]["voices"]
    assert (streams["active"]["id"], streams["newest"]["id"], streams["count"]) == ("v1", "v2", 2)


async def test_the_timeline_follows_the_newest_or_the_active_versions(client: httpx.AsyncClient) -> None:
    await request_ad(client, "POST", "/voices", VOICES, 201)
    newest = await request_ad(client, "GET", "/timeline")
    assert [span["voiceId"] for span in newest["voices"]] == [VOICE, VOICE]
    assert newest["music"]
    assert (await request_ad(client, "GET", "/timeline?versions=active"))["voices"] == []
    await request_ad(client, "POST", "/voices/v1/activate")
    active = await request_ad(client, "GET", "/timeline?versions=active")
    assert [span["voiceId"] for span in active["voices"]] != [VOICE, VOICE]
    expected = {"spotSeconds", "durationSeconds", "fits", "overSeconds", "short", "timing", "voices", "sfx"}
    assert active.keys() == expected


async def test_a_clone_is_a_new_draft_with_the_same_data(client: httpx.AsyncClient) -> None:
    written = await request_ad(client, "POST", "/sfx/v1/clone", status=201)
    assert written["versionId"] == "v2"
    v1, v2 = [await request_ad(client, "GET", f"/sfx/{version}") for version in ("v1", "v2")]
    assert v2["data"] == v1["data"]
    assert (v2["parent"], v2["status"], v2["createdBy"]) == ("v1", "draft", "local")


async def test_only_a_draft_that_is_not_active_can_be_deleted(client: httpx.AsyncClient) -> None:
    """A33: frozen versions stay, and no version id is used twice."""
    await request_ad(client, "POST", "/music", {"musicPrompt": "slow jazz"}, 201)
    assert "frozen" in await refusal(client, "DELETE", "/music/v1", None, 409)
    await request_ad(client, "POST", "/music/v2/activate")
    assert "active" in await refusal(client, "DELETE", "/music/v2", None, 409)
    await request_ad(client, "POST", "/music/v1/activate")
    stream = await request_ad(client, "DELETE", "/music/v2")
    assert [version["id"] for version in stream["versions"]] == ["v1"]
    assert (await request_ad(client, "POST", "/music/v1/clone", status=201))["versionId"] == "v3"


async def test_a_chat_continues_from_a_version_written_by_hand(client: httpx.AsyncClient) -> None:
    """A19, A64: the model reads the newest version."""
    prompt = "slow jazz with a muted trumpet"
    await request_ad(client, "POST", "/music", {"musicPrompt": prompt}, 201)
    assert (await chat_about_ad(client, "Make the music more upbeat"))["drafts"] == {"music": "v3"}
    assert "trumpet" in (await request_ad(client, "GET", "/music/v3"))["musicPrompt"]


def one_track(**fields: object) -> dict[str, Any]:
    return {"voiceTracks": [{"voiceId": VOICE, "text": "Hello.", **fields}]}


def two_tracks(first: str, second: str) -> dict[str, Any]:
    texts = (first, second)
    return {"voiceTracks": [{"voiceId": VOICE, "text": "Hello.", "playAfter": after} for after in texts]}


def one_effect(**fields: object) -> dict[str, Any]:
    return {"soundFxPrompts": [{"description": "bell", **fields}]}


CREATE_REFUSALS: list[tuple[str, dict[str, Any], int, str]] = [
    ("voices", {}, 422, "'voiceTracks' is missing"),
    ("voices", {"voiceTracks": []}, 422, "'voiceTracks': list should have at least 1 item"),
    ("voices", {"voiceTracks": 5}, 422, "'voiceTracks'"),
    ("voices", {"voiceTracks": [{"text": "Hello."}]}, 422, "'voiceTracks.0.voiceId' is missing"),
    ("voices", one_track(voiceId="acme/nobody"), 422, "voice 'acme/nobody' is not in the catalogue"),
    ("voices", one_track(text=""), 422, "'voiceTracks.0.text'"),
    ("voices", one_track(text="x" * 10_001), 422, "at most 10000"),
    ("voices", one_track(text=5), 422, "'voiceTracks.0.text'"),
    ("voices", one_track(speed=0.4), 422, "'voiceTracks.0.speed'"),
    ("voices", one_track(speed=2.1), 422, "'voiceTracks.0.speed'"),
    ("voices", one_track(overlap=61), 422, "'voiceTracks.0.overlap'"),
    ("voices", one_track(pitch=2), 422, "'voiceTracks.0.pitch' is not a field"),
    ("voices", one_track(playAfter="track-0"), 422, "plays after 'track-0'"),
    ("voices", {"voiceTracks": one_track(id="a")["voiceTracks"] * 2}, 422, "two tracks have one id"),
    ("voices", two_tracks("track-1", "track-0"), 422, "plays after 'track-1'"),
    ("voices", two_tracks("start", "track-7"), 422, "plays after 'track-7'"),
    ("voices", one_track(text="x" * 41) | {"musicPrompt": "x"}, 422, "'musicPrompt' is not a field"),
    ("voices", {"voiceTracks": one_track()["voiceTracks"] * 41}, 422, "at most 40"),
    ("music", {"musicPrompt": ""}, 422, "'musicPrompt'"),
    ("music", {"musicPrompt": "x", "musicProvider": "acme"}, 422, "'musicProvider'"),
    ("music", {"musicPrompt": "x", "musicProvider": "mubert", "provider": "loudly"}, 422, "differ"),
    ("music", {"musicPrompt": "x", "duration": 0}, 422, "'duration'"),
    ("music", {"musicPrompt": "x", "duration": "long"}, 422, "'duration'"),
    ("sfx", one_effect(duration=0), 422, "duration"),
    ("sfx", one_effect(duration=-1), 422, "duration"),
    ("sfx", one_effect(duration=30.1), 422, "duration"),
    ("sfx", one_effect(placement={"type": "middle"}), 422, "placement.type"),
    ("sfx", one_effect(placement={"type": "afterVoice"}), 422, "placed after voice None"),
    ("sfx", one_effect(placement={"type": "afterVoice", "index": 99}), 422, "the valid range is 0 to"),
    ("sfx", one_effect(placement={"type": "afterVoice", "index": -1}), 422, "placement.index"),
    ("sfx", one_effect(description=""), 422, "description"),
]


@pytest.mark.slow
async def test_data_that_the_tools_refuse_is_refused_by_hand_too(
    client: httpx.AsyncClient,
) -> None:
    """A13, A-R4, A-R5, A-R7: and no version is written."""
    for stream, data, status, words in CREATE_REFUSALS:
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


async def test_a_change_that_breaks_a_rule_is_refused(client: httpx.AsyncClient) -> None:
    for path, patch, words in PATCH_REFUSALS:
        assert words in await refusal(client, "PATCH", path, patch, 422)


async def test_every_request_for_an_unknown_version_is_404(client: httpx.AsyncClient) -> None:
    for method, part, body in (
        ("GET", "", None),
        ("PATCH", "", VOICES),
        ("DELETE", "", None),
        ("POST", "/activate", None),
        ("POST", "/clone", None),
    ):
        error = await refusal(client, method, f"/voices/v9{part}", body, 404)
        assert "no voices version 'v9'" in error
