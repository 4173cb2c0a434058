"""Ads spoken by Azure and Google: voices as cast, the nearest named, failures that leave nothing."""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from callsheet.providers.speech import Line, SpeechEngines, configured_speech
from callsheet.state.errors import CallsheetError, Conflict, Invalid, Limited, TimedOut, Unavailable
from callsheet.tools.audio.casting import cast, narrator_lines
from tests.doubles.served import generate_ad, served_app
from tests.doubles.speech_double import KEY, LETTER_S, AzureDouble, GoogleDouble, SpeechDouble, tone

AVA = "azure/en-US-AvaMultilingualNeural@english"
ACHERNAR = "google/en-US-Chirp3-HD-Achernar"
SERVICES = {"azure": AzureDouble, "google": GoogleDouble}


@pytest.fixture(params=SERVICES)
def double(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SpeechDouble]:
    """A service; the environment points to it."""
    with SERVICES[request.param]() as service:
        for name, value in service.environ.items():
            monkeypatch.setenv(name, value)
        yield service


def engines(*doubles: SpeechDouble, **more: str) -> SpeechEngines:
    environ: dict[str, str] = {}
    for one in doubles:
        environ |= one.environ
    speech = configured_speech(environ | more)
    assert speech is not None
    return speech


def tracks(*voice_ids: str) -> list[dict[str, Any]]:
    return [{"id": f"track-{i}", "voiceId": one, "text": "Fresh bread."} for i, one in enumerate(voice_ids)]


async def test_azure_is_sent_text_in_ssml_that_no_text_can_change() -> None:
    text = 'Miel & Fils <break time="9s"/> </voice><voice name="x">\x00 ok'
    with AzureDouble() as azure:
        [sound] = await engines(azure).say([Line(text, "en-US-AvaMultilingualNeural", "english", 1.25)])
    assert sound.startswith(b"RIFF")
    assert azure.requests == [
        {
            "voice": "en-US-AvaMultilingualNeural",
            "rate": "+25%",
            "locale": "en-US",
            "input": text.replace("\x00", " "),
            "elements": 3,
            "format": "riff-24khz-16bit-mono-pcm",
        }
    ]


async def test_google_is_sent_plain_text() -> None:
    with GoogleDouble() as google:
        line = Line("Bread <b>", "cmn-CN-Chirp3-HD-Kore", "chinese", 3.0)
        assert await engines(google).say([line]) == [tone(LETTER_S * len("Bread <b>"))]
    assert google.requests == [
        {
            "input": {"text": "Bread <b>"},
            "voice": {"languageCode": "cmn-CN", "name": "cmn-CN-Chirp3-HD-Kore"},
            "audioConfig": {"audioEncoding": "LINEAR16", "sampleRateHertz": 24_000, "speakingRate": 2.0},
        }
    ]


def sound_answer(double: SpeechDouble, sound: bytes) -> bytes:
    if isinstance(double, GoogleDouble):
        return json.dumps({"audioContent": b64encode(sound).decode()}).encode()
    return sound


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (401, b"no", Unavailable, "refuses the key in"),
        (429, b"slow down", Limited, "limits the key in"),
        (400, b"no such voice", Invalid, "rejects a line (400): no such voice"),
        (500, b"oops " + KEY.encode(), Unavailable, "failed (500)"),
        (200, b"<html>proxy</html>", Unavailable, "not a sound file"),
        (200, b'{"audioContent": "%%%"}', Unavailable, "not a sound file"),
        (200, b"[]", Unavailable, "not a sound file"),
        (200, b"", Unavailable, "not a sound file"),
    ],
)
async def test_a_failed_answer_of_a_service_is_an_error_with_its_cause_and_without_the_key(
    double: SpeechDouble, status: int, body: bytes, kind: type[CallsheetError], words: str
) -> None:
    double.replies.append((status, body))
    with pytest.raises(kind) as failure:
        await engines(double).say([Line("Bread.", "en-US-x", "english")])
    assert words in str(failure.value)
    assert KEY not in f"{failure.value} {failure.value.remedy}"


async def test_a_silent_service_is_waited_for_until_the_time_out(double: SpeechDouble) -> None:
    double.silent.set()
    with pytest.raises(TimedOut, match="did not answer in time"):
        await engines(double, SPEECH_TIMEOUT_S="0.2").say([Line("Bread.", "en-US-x", "english")] * 2)


async def test_a_service_that_is_not_there_cannot_be_reached() -> None:
    speech = configured_speech({"AZURE_SPEECH_KEY": KEY, "AZURE_SPEECH_URL": "http://127.0.0.1:1/v1"})
    assert speech is not None
    with pytest.raises(Unavailable, match=r"cannot be reached at 127\.0\.0\.1"):
        await speech.say([Line("Bread.", "en-US-x", "english")])


def test_a_key_without_a_region_is_refused() -> None:
    with pytest.raises(Invalid, match="AZURE_SPEECH_REGION is ''"):
        configured_speech({"AZURE_SPEECH_KEY": KEY})
    assert configured_speech({"AZURE_SPEECH_KEY": KEY, "AZURE_SPEECH_REGION": "westeurope"})


def test_a_voice_speaks_as_cast_or_the_nearest_one_does_and_is_named() -> None:
    with AzureDouble() as azure, GoogleDouble() as google:
        own, both = engines(azure), engines(azure, google)
        lines = cast(tracks(AVA, ACHERNAR, "openai/alloy@english"), "english", own)
        assert lines[0].line.speaker == "en-US-AvaMultilingualNeural"
        assert lines[0].notice == ""
        stand_in = lines[1].line.speaker
        assert lines[1].notice == f"Achernar is not available here; {stand_in} speaks"
        assert stand_in.endswith("Neural")
        assert len({one.line.speaker for one in lines}) == 3
        lines = cast(tracks(AVA, ACHERNAR), "english", both)
        assert [(one.line.engine, one.notice) for one in lines] == [("azure", ""), ("google", "")]
        [kore] = cast(tracks("gemini/Kore@english"), "english", engines(google))
        assert kore.line.speaker.endswith("Chirp3-HD-Kore")
        assert kore.notice.startswith("Kore is not available here; ")
        [german] = narrator_lines(["Guten Tag."], "german", own)
        assert german.speaker.startswith("de-DE-")
        with pytest.raises(Conflict, match="nothing speaks Latin"):
            cast(tracks("nobody"), "latin", own)


async def test_each_line_goes_to_its_engine_and_keeps_its_place() -> None:
    with AzureDouble() as azure, GoogleDouble() as google, SpeechDouble() as own:
        speech = engines(azure, google, own)
        assert [one.provider for one in speech.engines] == ["openai", "azure", "google"]
        texts = {"azure": "a", "google": "bb", "": "ccc", "openai": "dddd"}
        lines = [Line(text, "alloy", "english", engine=name) for name, text in texts.items()]
        sounds = await speech.say(lines)
    assert sounds == [tone(LETTER_S * len(text)) for text in texts.values()]


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_an_ad_is_rendered_by_a_service_and_a_broken_sound_leaves_nothing(
    double: SpeechDouble, valkey_url: str, inspector: Redis
) -> None:
    voice = AVA if isinstance(double, AzureDouble) else ACHERNAR
    async with served_app(valkey_url) as client:
        client.timeout = 150
        await generate_ad(client)
        script = [{"voiceId": voice, "text": "Fresh bread, every morning."}]
        await client.post("/api/ads/ad-1/voices", json={"voiceTracks": script})
        double.replies.append((200, sound_answer(double, b"RIFF\xff\xff\xff\xffWAVEfmt " + bytes(200))))
        broken = await client.post("/api/ads/ad-1/render", json={})
        assert (broken.status_code, broken.json()["type"]) == (503, "unavailable")
        assert not [*inspector.keys("ad:*:recording*"), *inspector.keys("owner:*:speech:*")]
        good = (await client.post("/api/ads/ad-1/render", json={})).json()
        assert not any("not available" in notice for notice in good["notices"])
