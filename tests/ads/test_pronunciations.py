"""Names are spoken as their pronunciation says; the model is shown what was measured on a rendered ad."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from pydantic import TypeAdapter, ValidationError

from callsheet.state.pronunciations import Pronunciations, respell
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.documented import assert_documented
from tests.doubles.served import app_client, generate_ad, started_app
from tests.doubles.speech_double import SpeechDouble


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Miel opens. At MIEL’s, Miel-Brot!", "mee-ell opens. At mee-ell’s, mee-ell-Brot!"),
        ("Amiel and Mielke", "Amiel and Mielke"),
        ("Miel  et Fils bakes", "the sons of mee-ell bakes"),
        ("C++ and Nº 5.", "see plus plus and Nº 5."),
        ("Straße 7", "strah-seh 7"),
    ],
)
def test_names_are_respelled_and_parts_of_words_are_not(text: str, words: str) -> None:
    names = {
        "Miel": "mee-ell",
        "Miel et Fils": "the sons of mee-ell",
        "C++": "see plus plus",
        "Straße": "strah-seh",
    }
    assert respell(text, names) == words
    assert respell(text, {}) == text


def test_a_name_has_a_letter_or_a_digit_and_no_outer_blanks() -> None:
    names = TypeAdapter(Pronunciations)
    assert names.validate_python({" Miel  et Fils ": "the  sons"}) == {"Miel et Fils": "the sons"}
    with pytest.raises(ValidationError, match="a letter or a digit"):
        names.validate_python({"!": "bang"})


@pytest.fixture
def speech(monkeypatch: pytest.MonkeyPatch) -> Iterator[SpeechDouble]:
    with SpeechDouble() as double:
        for name, value in double.environ.items():
            monkeypatch.setenv(name, value)
        yield double


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    with ChatDouble() as double:
        for name, value in double.environ.items():
            monkeypatch.setenv(name, value)
        yield double


@pytest.fixture
async def client(
    speech: SpeechDouble, model: ChatDouble, valkey_url: str
) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        started_app(valkey_url) as app,
        app_client(app, event_hooks={"response": [assert_documented]}) as http,
    ):
        http.timeout = httpx.Timeout(100)
        yield http


async def write_script(client: httpx.AsyncClient, text: str) -> None:
    await generate_ad(client)
    tracks = [{"voiceId": "openai/alloy@english", "text": text}]
    reply = await client.post("/api/ads/ad-1/voices", json={"voiceTracks": tracks})
    assert reply.status_code == 201, reply.text


async def set_names(client: httpx.AsyncClient, path: str, **names: str) -> dict[str, str]:
    reply = await client.put(path, json={"names": names})
    assert reply.status_code == 200, reply.text
    shown: dict[str, str] = reply.json()["names"]
    return shown


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_speech_says_names_as_their_owner_and_their_ad_want_it(
    client: httpx.AsyncClient, speech: SpeechDouble
) -> None:
    await write_script(client, "Miel at Rhône. Miel!")
    owner, own = "/api/pronunciations", "/api/ads/ad-1/pronunciations"
    await set_names(client, owner, Miel="meal", Rhône="roan")
    assert await set_names(client, own, Miel="mee-ell") == {"Miel": "mee-ell"}
    shown = (await client.get(own)).json()
    assert shown == {"names": {"Miel": "mee-ell"}, "ownerNames": {"Miel": "meal", "Rhône": "roan"}}
    assert (await client.put(own, json=shown)).json() == shown == (await client.get(own)).json()
    foreign = await client.put(own, json={"names": {}, "ownerNames": {"Miel": "honey"}})
    assert (foreign.status_code, "/api/pronunciations" in foreign.json()["remedy"]) == (422, True)
    assert (await client.get(owner)).json() == {"names": {"Miel": "meal", "Rhône": "roan"}}
    assert (await client.post("/api/ads/ad-1/render", json={"format": "ogg"})).status_code == 200
    assert [one["input"] for one in speech.requests] == ["mee-ell at roan. mee-ell!"]
    newest = (await client.get("/api/ads/ad-1")).json()["streams"]["voices"]["newest"]
    assert newest["data"]["voiceTracks"][0]["text"] == "Miel at Rhône. Miel!"
    await set_names(client, own)
    assert (await client.get("/api/ads/ad-1/audio?format=ogg")).status_code == 404
    assert (await client.post("/api/ads/ad-1/render", json={"format": "ogg"})).status_code == 200
    assert speech.requests[-1]["input"] == "meal at roan. meal!"
    refused = await client.put(own, json={"names": {"!": "bang"}})
    assert refused.status_code == 422


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_the_model_is_shown_the_measured_length_and_the_rules_that_a_rendered_ad_breaks(
    client: httpx.AsyncClient, model: ChatDouble
) -> None:
    await write_script(client, "Bread. " * 110)

    async def state_block() -> str:
        model.script(Say("It is ready."))
        body = {"message": "How long is it?", "provider": "openai"}
        assert (await client.post("/api/ads/ad-1/chat", json=body)).status_code == 200
        return str(model.requests[-1].messages[-1]["content"]).partition("<state>")[2]

    estimated = await state_block()
    assert "Measured on the rendered speech" not in estimated
    assert "Rendered for" not in estimated
    assert (await client.post("/api/ads/ad-1/render", json={"track": "voices"})).status_code == 200
    assert "Rendered for" not in await state_block(), "one track says nothing of the whole"
    rendering = (await client.post("/api/ads/ad-1/render", json={})).json()
    measured = await state_block()
    length = f"Length: {rendering['timeline']['durationSeconds']:g} s of"
    assert length in measured
    assert "Measured on the rendered speech." in measured
    assert (
        f"Rendered for spotify, breaks its rules: length {rendering['seconds']:.1f} s, at most 30 s"
        in measured
    )
