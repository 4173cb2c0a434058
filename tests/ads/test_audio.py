"""The sound of an ad over REST, with the local voices: rendered, measured, heard in parts."""

import io
import zipfile
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import soundfile
from pydantic import TypeAdapter

from callsheet.server.ads.audio import PreflightReport, Rendering
from tests.doubles.served import chat_about_ad, generate_ad, parse_events, served_app

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
README_BRIEF = (
    "20 seconds for Harbour Bikes, e-bikes by the hour in Porto. First hour free until 30 June. "
    "harbourbikes.example"
)


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server; every reply must have a documented status."""
    async with served_app(valkey_url) as http:
        http.timeout = httpx.Timeout(150)
        yield http


async def render(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    reply = await client.post("/api/ads/ad-1/render", json=body)
    assert reply.status_code == 200, reply.text
    rendering: dict[str, Any] = reply.json()
    TypeAdapter(Rendering).validate_python(rendering)
    return rendering


async def read_sound(client: httpx.AsyncClient, url: str) -> Any:
    reply = await client.get(url)
    assert reply.status_code == 200, reply.text
    return soundfile.read(io.BytesIO(reply.content), always_2d=True)


async def test_the_ad_of_the_readme_is_audible_without_any_key(client: httpx.AsyncClient) -> None:
    """At −16 LUFS, with a true peak of at most −2 dBTP and half a second of silence at both ends."""
    # It imports SciPy, which each process would do that collects this file.
    import pyloudnorm

    await generate_ad(client, brief=README_BRIEF)
    assert (await client.get("/api/ads/ad-1/audio")).status_code == 404
    rendering = await render(client)
    samples, rate = await read_sound(client, rendering["url"])
    assert (rate, samples.shape[1]) == (44_100, 2)
    assert len(samples) / rate == pytest.approx(rendering["seconds"], abs=0.1) == 20.0
    assert pyloudnorm.Meter(rate).integrated_loudness(samples) == pytest.approx(-16, abs=0.5)
    assert rendering["truePeakDbtp"] <= -2
    assert abs(samples).max() <= 10 ** (-2 / 20)
    assert abs(samples[: int(rate * 0.4)]).max() < 0.001
    assert abs(samples[-int(rate * 0.4) :]).max() < 0.001
    assert len((await client.get(rendering["url"])).content) * 8 / 20 == pytest.approx(192_000, rel=0.02)
    notices = " ".join(rendering["notices"])
    assert "Ava Multilingual is not available here; preview voice 1 speaks" in notices
    assert "preview voice 2" in notices
    assert "from the library, not the described music" in notices
    assert "is a computed sketch (bell)" in notices
    tags = soundfile.SoundFile(io.BytesIO((await client.get(rendering["url"])).content))
    assert tags.title == (await client.get("/api/ads")).json()["ads"][0]["title"] != "ad-1"
    assert "preview voice 1 speaks" in tags.comment


async def test_the_timeline_is_measured_once_the_voices_were_rendered(client: httpx.AsyncClient) -> None:
    generated = await generate_ad(client, brief=README_BRIEF)
    assert generated["timeline"]["timing"] == "estimated"
    rendering = await render(client, format="ogg")
    timeline = (await client.get("/api/ads/ad-1/timeline")).json()
    assert timeline["timing"] == "measured"
    assert timeline == rendering["timeline"] == (await client.get("/api/ads/ad-1")).json()["timeline"]
    speech_s = [span["end"] - span["start"] for span in timeline["voices"]]
    estimated = [span["end"] - span["start"] for span in generated["timeline"]["voices"]]
    assert speech_s != estimated
    assert sum(speech_s) == pytest.approx(sum(estimated), rel=0.5)


async def test_a_part_of_the_file_is_sent_and_a_known_one_is_not(client: httpx.AsyncClient) -> None:
    await generate_ad(client, brief=README_BRIEF)
    rendering = await render(client, format="wav")
    complete = await client.get(rendering["url"])
    assert (complete.headers["accept-ranges"], complete.headers["content-type"]) == ("bytes", "audio/wav")
    part = await client.get(rendering["url"], headers={"Range": "bytes=100-299"})
    assert (part.status_code, part.content) == (206, complete.content[100:300])
    assert part.headers["content-range"] == f"bytes 100-299/{rendering['size']}"
    end = await client.get(rendering["url"], headers={"Range": "bytes=-50"})
    assert (end.status_code, end.content) == (206, complete.content[-50:])
    beyond = await client.get(rendering["url"], headers={"Range": "bytes=99999999-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{rendering['size']}")
    known = await client.get(rendering["url"], headers={"If-None-Match": complete.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")
    await client.patch("/api/ads/ad-1/mixer", json={"music": {"volumeDb": -20}})
    changed = await client.get(rendering["url"])
    assert (changed.status_code, "render" in changed.json()["remedy"]) == (404, True)


async def test_a_version_by_name_is_mixed_with_the_newest_ones(
    client: httpx.AsyncClient,
) -> None:
    await generate_ad(client, brief=README_BRIEF)
    short = [{"voiceId": "openai/alloy@english", "text": "Harbour Bikes."}]
    for tracks in (short, [{**short[0], "text": "Come to Porto."}]):
        assert (await client.post("/api/ads/ad-1/voices", json={"voiceTracks": tracks})).status_code == 201
    newest, named = await render(client, track="voices"), await render(client, track="voices", voices="v2")
    assert (newest["versions"]["voices"], named["versions"]["voices"]) == ("v3", "v2")
    assert (newest["seconds"], named["seconds"]) == (20.0, 20.0)
    assert (await client.get(named["url"])).content != (await client.get(newest["url"])).content
    assert (await client.post("/api/ads/ad-1/render", json={"music": "v9"})).status_code == 404


async def test_a_file_without_music_is_as_long_as_its_spot(client: httpx.AsyncClient) -> None:
    await generate_ad(client, brief=f"{README_BRIEF} No music.")
    view = (await client.get("/api/ads/ad-1")).json()
    assert view["streams"]["music"]["newest"] is None
    assert (await render(client))["seconds"] == 20.0


async def test_the_mixer_and_one_track_alone_are_audible(client: httpx.AsyncClient) -> None:
    await generate_ad(client, brief=README_BRIEF)
    alone, rate = await read_sound(client, (await render(client, track="track-1", format="wav"))["url"])
    timeline = (await client.get("/api/ads/ad-1/timeline")).json()
    start, end = (int((timeline["voices"][1][name] + 0.5) * rate) for name in ("start", "end"))
    assert abs(alone[start:end]).max() > 0.1
    assert abs(alone[: start - rate // 10]).max() < 0.001
    assert (await client.post("/api/ads/ad-1/render", json={"track": "track-9"})).status_code == 404


async def test_a_file_is_checked_by_the_rules_of_its_place_and_of_another(client: httpx.AsyncClient) -> None:
    await generate_ad(client, brief=README_BRIEF)
    assert (await client.get("/api/ads/ad-1/preflight")).status_code == 404
    await render(client, format="mp3", profile="ebu-r128")
    query = {"profile": "ebu-r128"}
    own = (await client.get("/api/ads/ad-1/preflight", params=query)).json()
    TypeAdapter(PreflightReport).validate_python(own)
    assert (own["verdict"], own["title"]) == ("warn", "EBU R 128")
    assert [check["rule"] for check in own["checks"] if check["verdict"] != "pass"] == [
        "voices, music and effects of the ad"
    ]
    other = (await client.get("/api/ads/ad-1/preflight", params={**query, "against": "spotify"})).json()
    assert other["verdict"] == "fail"
    assert other["checks"][0]["verdict"] == "fail"
    assert (await client.get("/api/ads/ad-1/preflight?profile=radio")).status_code in {400, 422}


async def test_a_rendered_ad_is_handed_off_in_one_file(client: httpx.AsyncClient) -> None:
    await generate_ad(client, brief=README_BRIEF)
    query = {"format": "ogg", "mediaUrl": "https://cdn.example/ad.ogg"}
    assert (await client.get("/api/ads/ad-1/handoff", params=query)).status_code == 404
    await render(client, format="ogg")
    reply = await client.get("/api/ads/ad-1/handoff", params=query)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/zip")
    archive = zipfile.ZipFile(io.BytesIO(reply.content))
    assert sorted(archive.namelist()) == ["ad.ogg", "cues.csv", "preflight.json", "script.md", "vast.xml"]
    assert "https://cdn.example/ad.ogg" in archive.read("vast.xml").decode()
    script, cues = (archive.read(name).decode() for name in ("script.md", "cues.csv"))
    assert "times measured" in script
    for text in (script, cues):
        assert "Ava Multilingual, female, American (azure/en-US-AvaMultilingualNeural@english)" in text
    assert (await client.get("/api/ads/ad-1/handoff", params=query)).content == reply.content


async def test_a_rendering_and_its_hand_off_name_the_active_version_that_they_do_not_have(
    client: httpx.AsyncClient,
) -> None:
    """A34: the newest is rendered, and nobody takes it for the active one."""
    ad_view = await generate_ad(client, brief=README_BRIEF)
    await client.post("/api/ads/ad-1/voices/v1/activate")
    edit = {"text": "Bread, still warm.", "version": "v1"}
    assert (await client.patch("/api/ads/ad-1/voices/tracks/track-0", json=edit)).status_code == 200
    title = {"metadata": {"title": "Fresh / *Bread*"}}
    await client.patch(f"/threads/{ad_view['conversationId']}", json=title)
    rule = "Of the voices v2 is rendered; v1 is active."
    assert (await render(client, format="ogg"))["notices"][0] == rule
    reply = await client.get("/api/ads/ad-1/handoff?format=ogg")
    assert reply.headers["content-disposition"].endswith("Fresh%20Bread.zip")
    sound = await client.get("/api/ads/ad-1/audio?format=ogg")
    assert sound.headers["content-disposition"].endswith("Fresh%20Bread.ogg")
    script = zipfile.ZipFile(io.BytesIO(reply.content)).read("script.md").decode()
    assert script.startswith(
        f"# Fresh / \\*Bread\\*\n\nAd ad-1: voices v2, music v1, sound effects v1.\n\n{rule}\n\n"
    )
    active = (await render(client, format="ogg", versions="active"))["notices"]
    assert active[:2] == [
        "The music: no version is active, so none is rendered.",
        "The sound effects: no version is active, so none is rendered.",
    ]


async def test_progress_is_streamed_and_the_result_comes_last(client: httpx.AsyncClient) -> None:
    await generate_ad(client, brief=README_BRIEF)
    reply = await client.post(
        "/api/ads/ad-1/render", json={"format": "ogg"}, headers={"Accept": "text/event-stream"}
    )
    events = parse_events(reply.text)
    assert {name for name, _ in events[:-1]} == {"progress"}
    assert events[0][1]["stage"] == "speech"
    assert events[-1][0] == "result"
    TypeAdapter(Rendering).validate_python(events[-1][1])


async def test_other_languages_are_refused_with_the_settings_that_help(client: httpx.AsyncClient) -> None:
    """No English voice reads Thai, and no Thai voice is claimed."""
    await generate_ad(client)
    voices = (await client.get("/api/voices", params={"language": "thai", "limit": 1})).json()["voices"]
    track = {"voiceId": voices[0]["id"], "text": "ขนมปังสดใหม่ทุกเช้า"}
    await client.post("/api/ads/ad-1/voices", json={"voiceTracks": [track], "language": "thai"})
    refused = await client.post("/api/ads/ad-1/render", json={})
    assert (refused.status_code, refused.json()["type"]) == (409, "conflict")
    assert "nothing speaks Thai" in refused.json()["error"]
    assert "SPEECH_BASE_URL" in refused.json()["remedy"]


async def test_a_voice_is_previewed_and_another_speaker_is_named(client: httpx.AsyncClient) -> None:
    reply = await client.get("/api/voices/openai%2Falloy@english/preview")
    assert reply.status_code == 200
    assert reply.headers["voice-notice"] == "Alloy is not available here; preview voice 1 speaks"
    samples, rate = soundfile.read(io.BytesIO(reply.content))
    assert 2 < len(samples) / rate < 6
    assert (await client.get("/api/voices/nobody/preview")).status_code == 404
    assert (await client.get("/api/voices/openai%2Falloy@thai/preview")).status_code == 409


async def test_calmer_music_is_another_bed_and_one_that_stays_is_noted(client: httpx.AsyncClient) -> None:
    await generate_ad(client, brief=README_BRIEF)
    await chat_about_ad(client, "make the music calmer")
    await chat_about_ad(client, "make the music quieter")
    options = {"format": "wav", "track": "music", "profile": "plain"}
    notes = ["".join((await render(client, music=one, **options))["notices"]) for one in ("v1", "v2", "v3")]
    assert ["happy/" in notes[0], "calm/" in notes[1], "calm/" in notes[2]] == [True] * 3
    assert ["has the same bed" in one for one in notes] == [False, False, True]
    assert "Music v2 has the same bed: the library has no nearer one." in notes[2]
