"""Ads spoken by an endpoint with OpenAI's API: exact voices, failures, and many requests at once."""

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
import soundfile
from redis import Redis

from callsheet.providers.speech import Line, configured_speech
from callsheet.server.artefacts.speech import speech_of
from callsheet.state.errors import Invalid, RequestRejected, TimedOut, Unavailable, UnreadableSound
from callsheet.storage.redis.connection import Storage
from tests.doubles.served import generate_ad, parse_events, served_app
from tests.doubles.speech_double import KEY, LETTER_S, SpeechDouble, tone
from tests.doubles.waiting import until

LINE = Line("Fresh bread.", "alloy", "english", 1.0, "Whisper.")


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[SpeechDouble]:
    """A speech endpoint; the environment points to it."""
    with SpeechDouble() as speech:
        for name, value in speech.environ.items():
            monkeypatch.setenv(name, value)
        yield speech


@pytest.fixture
async def client(double: SpeechDouble, valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as http:
        http.timeout = httpx.Timeout(150)
        yield http


async def write_voices(client: httpx.AsyncClient, *voices: str, **more: Any) -> None:
    await generate_ad(client)
    tracks = [
        {"voiceId": voice, "text": f"Fresh bread {i}, every morning."} for i, voice in enumerate(voices)
    ]
    reply = await client.post("/api/ads/ad-1/voices", json={"voiceTracks": tracks, **more})
    assert reply.status_code == 201, reply.text


async def test_a_line_is_requested_with_voice_pace_and_direction(double: SpeechDouble) -> None:
    speech = configured_speech(double.environ)
    assert speech is not None
    assert await speech.say([LINE]) == [tone(LETTER_S * len(LINE.text))]
    [request] = double.requests
    assert request == {
        "model": "tones",
        "voice": "alloy",
        "input": "Fresh bread.",
        "response_format": "wav",
        "speed": 1.0,
        "instructions": "Whisper.",
    }


def test_openai_speaks_with_its_key_alone_but_no_other_server_of_its_api_does() -> None:
    """A server of chat models, such as vLLM, need not speak."""
    assert configured_speech({}) is None
    assert configured_speech({"OPENAI_API_KEY": "sk"}) is not None
    assert configured_speech({"OPENAI_API_KEY": "sk", "OPENAI_BASE_URL": "http://localhost:8000/v1"}) is None
    with pytest.raises(Invalid, match="SPEECH_TIMEOUT_S is 'soon'"):
        configured_speech({"SPEECH_BASE_URL": "http://localhost:8880/v1", "SPEECH_TIMEOUT_S": "soon"})


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b'{"error": {"message": "no"}}', "refuses the key in SPEECH_API_KEY"),
        (200, b"<html>proxy</html>", "an answer that is not a sound file: <html>proxy</html>"),
        (200, b"", "an answer that is not a sound file"),
    ],
)
async def test_a_failed_answer_is_an_error_with_its_cause(
    double: SpeechDouble, status: int, body: bytes, words: str
) -> None:
    double.replies.append((status, body))
    speech = configured_speech(double.environ)
    assert speech is not None
    with pytest.raises(Unavailable, match=words) as failure:
        await speech.say([LINE])
    assert KEY not in str(failure.value)


async def test_a_silent_endpoint_is_waited_for_until_the_time_out(double: SpeechDouble) -> None:
    double.silent.set()
    speech = configured_speech({**double.environ, "SPEECH_TIMEOUT_S": "0.2"})
    assert speech is not None
    with pytest.raises(TimedOut, match="the speech server did not answer in time"):
        await speech.say([LINE, LINE])


@pytest.mark.parametrize(
    ("failure", "requests"), [(Unavailable("a failed mix"), 1), (UnreadableSound("a broken clip"), 2)]
)
async def test_a_line_is_paid_for_again_only_if_its_sound_cannot_be_read(
    double: SpeechDouble, storage: Storage, failure: Exception, requests: int
) -> None:
    speech = configured_speech(double.environ)
    assert speech is not None
    with pytest.raises(type(failure), match=str(failure)):
        async with speech_of(storage, "local", speech, [LINE]):
            raise failure
    async with speech_of(storage, "local", speech, [LINE]) as sounds:
        assert sounds == [tone(LETTER_S * len(LINE.text))]
    assert len(double.requests) == requests


async def test_the_failure_of_a_line_does_not_lose_the_others(double: SpeechDouble, storage: Storage) -> None:
    """They are not paid for again."""
    speech = configured_speech(double.environ)
    assert speech is not None
    good = [replace(LINE, text=f"Fresh bread {number}.") for number in range(4)]
    # Four are spoken at once, so the last one begins when another one is kept.
    with pytest.raises(RequestRejected):
        async with speech_of(storage, "local", speech, [*good, replace(LINE, speaker="nobody")]):
            pass
    before = len(double.requests)
    async with speech_of(storage, "local", speech, good) as sounds:
        assert sounds == [tone(LETTER_S * len(one.text)) for one in good]
    assert len(double.requests) - before < len(good)


@pytest.mark.slow
async def test_voices_of_openai_are_rendered_as_cast_in_every_language(
    client: httpx.AsyncClient, double: SpeechDouble
) -> None:
    await write_voices(client, "openai/alloy@thai", language="thai")
    reply = (await client.post("/api/ads/ad-1/render", json={"format": "ogg"})).json()
    assert not any("not available" in notice for notice in reply["notices"])
    assert [request["voice"] for request in double.requests] == ["alloy"]
    speech_s = reply["timeline"]["voices"][0]
    assert speech_s["end"] - speech_s["start"] == pytest.approx(
        LETTER_S * len("Fresh bread 0, every morning."), abs=0.1
    )


@pytest.mark.slow
async def test_a_voice_of_another_provider_is_replaced_by_one_of_its_gender_and_named(
    client: httpx.AsyncClient, double: SpeechDouble
) -> None:
    await write_voices(client, "azure/en-US-AndrewMultilingualNeural@english", "openai/alloy@english")
    reply = (await client.post("/api/ads/ad-1/render", json={"format": "ogg"})).json()
    assert reply["notices"][0] == "Andrew Multilingual is not available here; ash speaks"
    assert {request["voice"] for request in double.requests} == {"ash", "alloy"}


@pytest.mark.slow
async def test_a_changed_mixer_is_rendered_without_speaking_again(
    client: httpx.AsyncClient, double: SpeechDouble
) -> None:
    await write_voices(client, "openai/alloy@english")
    await client.post("/api/ads/ad-1/render", json={"format": "ogg"})
    await client.patch("/api/ads/ad-1/mixer", json={"music": {"volumeDb": -40}})
    assert (await client.post("/api/ads/ad-1/render", json={"format": "ogg"})).status_code == 200
    assert len(double.requests) == 1


@pytest.mark.slow
async def test_bytes_that_only_look_like_sound_are_refused(
    client: httpx.AsyncClient, double: SpeechDouble, inspector: Redis
) -> None:
    await write_voices(client, "openai/alloy@english")
    double.replies.append((200, b"RIFF\xff\xff\xff\xffWAVEfmt " + bytes(200)))
    reply = await client.post("/api/ads/ad-1/render", json={})
    assert (reply.status_code, reply.json()["type"]) == (503, "unavailable")
    assert "cannot be read" in reply.json()["error"]
    assert not inspector.keys("ad:*:recording*")


@pytest.mark.slow
async def test_an_error_while_progress_is_streamed_is_its_last_event(
    client: httpx.AsyncClient, double: SpeechDouble
) -> None:
    await write_voices(client, "openai/alloy@english")
    double.replies.append((401, b"{}"))
    reply = await client.post("/api/ads/ad-1/render", json={}, headers={"Accept": "text/event-stream"})
    name, body = parse_events(reply.text)[-1]
    assert (name, body["type"]) == ("error", "unavailable")


@pytest.mark.slow
async def test_thirty_renders_at_once_make_one_file_and_leave_no_half(
    client: httpx.AsyncClient, double: SpeechDouble, inspector: Redis
) -> None:
    await write_voices(client, "openai/alloy@english")
    requests = (client.post("/api/ads/ad-1/render", json={"format": "ogg"}) for _ in range(30))
    replies = await asyncio.gather(*requests)
    assert {reply.status_code for reply in replies} == {200}
    assert len({reply.text for reply in replies}) == 1
    assert len(double.requests) == 1
    assert len(inspector.keys("ad:*:recording:*")) == 1
    assert not inspector.keys("ad:*:recording-part:*")
    content = (await client.get(replies[0].json()["url"])).content
    assert soundfile.info(io.BytesIO(content)).frames


@pytest.mark.slow
async def test_a_reader_who_leaves_ends_the_rendering(
    client: httpx.AsyncClient, double: SpeechDouble, inspector: Redis
) -> None:
    await write_voices(client, "openai/alloy@english")
    double.silent.set()
    rendering = asyncio.create_task(client.post("/api/ads/ad-1/render", json={}))
    await asyncio.to_thread(until, lambda: bool(double.requests), "the request to the endpoint")
    rendering.cancel()
    double.silent.clear()
    assert (await client.post("/api/ads/ad-1/render", json={"format": "ogg"})).status_code == 200
    assert not inspector.keys("ad:*:recording-part:*")
