"""The sound of a film: the words of a lesson's scenes, and a bed of music under them."""

import io
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from pydantic import TypeAdapter

from callsheet.server.video.audio import FilmSoundRendering
from callsheet.state.errors import Oversized
from callsheet.tools.audio.soundtrack import score_film
from tests.doubles.documented import assert_documented
from tests.doubles.served import app_client, started_app
from tests.lessons.lesson_client import LessonClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
FILM = "/api/projects/film/film"


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server; every reply must be as documented."""
    async with (
        started_app(valkey_url) as app,
        app_client(app, event_hooks={"response": [assert_documented]}, timeout=200) as one,
    ):
        yield one


async def render(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    """Return the rendering of a film's sound, which must succeed."""
    reply = await client.post(f"{FILM}/render", json={"format": "wav", **body})
    assert reply.status_code == 200, reply.text
    rendering: dict[str, Any] = reply.json()
    TypeAdapter(FilmSoundRendering).validate_python(rendering)
    return rendering


async def samples_of(client: httpx.AsyncClient, rendering: dict[str, Any]) -> tuple[Any, int]:
    """Return the samples of a rendered file and their rate."""
    reply = await client.get(rendering["url"])
    assert reply.status_code == 200, reply.text
    samples: tuple[Any, int] = soundfile.read(io.BytesIO(reply.content))
    return samples


async def test_a_film_of_a_lesson_speaks_its_sentences_in_their_scenes_with_music_under_them(
    client: httpx.AsyncClient,
) -> None:
    lesson = LessonClient(client)
    await lesson.create_narration()
    await client.post("/api/projects", json={"id": "film", "lessonId": lesson.session_id})
    scenes = (await client.get("/api/projects/film/scenes")).json()["scenes"]
    assert all(scene["narrated"] for scene in scenes)
    assert (await client.get(f"{FILM}/audio")).status_code == 404
    narrated = await render(client)
    assert narrated["notices"] == ["Preview voice: preview voice 1 speaks"]
    lengths = [scene["durationInFrames"] for scene in scenes]
    held = [length for length, own in zip(narrated["frames"], lengths, strict=True) if length < own]
    assert held == []
    assert narrated["seconds"] == pytest.approx(sum(narrated["frames"]) / 30, abs=0.05)
    samples, rate = await samples_of(client, narrated)
    ends = np.cumsum(narrated["frames"]) / 30
    for start, end in zip([0.0, *ends], ends, strict=False):
        scene = np.abs(samples[round(start * rate) : round(end * rate)])
        assert scene.max() > 0.1, f"the scene at {start} s is silent"
    exported = (await client.get("/api/projects/film/export")).json()["scenes"]
    written = [scene["audio"]["description"] for scene in exported]
    assert [one["text"] for one in narrated["words"]] == "\n".join(written).split("\n")
    for one in narrated["words"]:
        part = np.abs(samples[round(one["start"] * rate) : round(one["end"] * rate)])
        assert part.max() > 0.1, one
    assert all(one["end"] <= after["start"] for one, after in pairwise(narrated["words"]))
    both = await render(client, music="calm piano")
    assert both["frames"] == narrated["frames"]
    assert any("calm" in notice for notice in both["notices"])
    quiet, _ = await samples_of(client, both)
    gap = slice(round((ends[0] - 0.3) * rate), round((ends[0] - 0.1) * rate))
    assert np.abs(samples[gap]).max() < 0.001 < np.abs(quiet[gap]).max()
    alone = await render(client, narration=False, music="calm piano")
    assert (alone["frames"], alone["words"]) == (lengths, [])


async def test_a_film_of_scenes_without_words_has_music_alone_or_is_refused(
    client: httpx.AsyncClient,
) -> None:
    await client.post("/api/projects", json={"id": "film", "starter": "app-promo"})
    refused = await client.post(f"{FILM}/render", json={})
    assert (refused.status_code, "music" in refused.json()["remedy"]) == (409, True)
    music = await render(client, music="energetic")
    assert music["loudnessLufs"] == pytest.approx(-16, abs=0.5)
    frames = [
        one["durationInFrames"] for one in (await client.get("/api/projects/film/scenes")).json()["scenes"]
    ]
    assert music["frames"] == frames


@pytest.mark.parametrize(
    "audio",
    [{"description": "Plants make food.", "start": 10_800}, {"description": "Plants make food.\n" * 200}],
    ids=["late words", "many words"],
)
async def test_a_film_is_measured_with_its_words_before_speech_is_paid(
    client: httpx.AsyncClient, audio: dict[str, Any]
) -> None:
    scene = {"durationInFrames": 15, "audio": {**audio, "spokenLanguage": "english"}}
    await client.post("/api/projects", json={"id": "film", "scenes": [scene, scene]})
    refused = await client.post(f"{FILM}/render", json={})
    assert (refused.status_code, "at most 300 s" in refused.json()["error"]) == (413, True)
    assert "shorten" in refused.json()["remedy"]
    music = await client.post(f"{FILM}/render", json={"narration": False, "music": "calm"})
    assert music.status_code == 200, music.text


def test_a_film_with_longer_words_than_estimated_has_a_limit() -> None:
    scene = {"frames": 18_000, "start": 0, "volume": 1.0, "sizes": []}
    with pytest.raises(Oversized, match="lasts more than 600 s"):
        score_film(b"", lambda *_: None, scenes=[scene] * 2, music="", max_s=600.0, options={})


async def test_a_film_speaks_a_language_by_any_of_its_names(client: httpx.AsyncClient) -> None:
    audio = {"description": "Plants make food.", "spokenLanguage": "English"}
    created = await client.post("/api/projects", json={"id": "film", "scenes": [{"audio": audio}]})
    assert created.status_code == 201
    [scene] = (await client.get("/api/projects/film/export")).json()["scenes"]
    assert scene["audio"]["spokenLanguage"] == "english"
    assert (await render(client))["notices"] == ["Preview voice: preview voice 1 speaks"]
