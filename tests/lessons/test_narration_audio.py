"""The sound of a narration over REST: whole, by segment, and as times of subtitles."""

import io
import re
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
import soundfile
from pydantic import TypeAdapter

from callsheet.graphs import fact_narration
from callsheet.server.lessons.audio import NarrationRendering
from tests.lessons.lesson_client import LessonClient, ok

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
GRAPHS = {"fact_narration": fact_narration.graph}
NARRATION = "/api/agent-create/session/narration"
QUIZ = "/api/agent-create/session/quiz?format=md"


async def render(client: LessonClient, **body: Any) -> httpx.Response:
    return await client.request("POST", f"{NARRATION}/render", json=body)


async def assert_measured(client: LessonClient, rendering: dict[str, Any]) -> None:
    """The notices and the lesson have one sentence on the length, and segments the times of the sound."""
    session = await client.get_session()
    speech_s = sum(end - start for start, end in rendering["times"])
    sound = f"the sound lasts {rendering['seconds']:.1f} s, {speech_s:.1f} s of it spoken (measured)"
    assert session["speech"] == f"planned for 60 s; {sound}"
    assert rendering["notices"] == ["Preview voice: preview voice 1 speaks", f"{session['speech']}."]
    counts = [len(one["sentences"]) for one in session["narration"]["segments"]]
    starts = [sum(counts[:at]) for at in range(len(counts))]
    ends = [start + count - 1 for start, count in zip(starts, counts, strict=True)]
    times = rendering["times"]
    assert session["segmentTimes"] == [
        [times[start][0], times[end][1]] for start, end in zip(starts, ends, strict=True)
    ]
    text = (await client.request("GET", f"{NARRATION}?format=md")).text
    assert f"{session['speech']} · " in text


def saved_as(reply: httpx.Response) -> str:
    """Return the name under which a browser saves a file."""
    return unquote(reply.headers["Content-Disposition"].partition("UTF-8''")[2])


async def test_a_narration_is_audible_and_its_subtitles_follow_the_speech(
    lesson_client: LessonClient,
) -> None:
    narrated = await lesson_client.create_narration()
    lesson_client.http.timeout = 200
    early = await lesson_client.request("GET", f"{NARRATION}?format=srt&timing=measured")
    assert (early.status_code, "render" in early.json()["remedy"]) == (404, True)
    written = await lesson_client.request("GET", f"{NARRATION}?format=vtt")
    assert written.headers["X-Subtitle-Timing"] == "written"
    assert "NOTE\nTimes for which the narration was written" in written.text
    rendering = ok(await render(lesson_client, format="ogg"))
    TypeAdapter(NarrationRendering).validate_python(rendering)
    await assert_measured(lesson_client, rendering)
    sound = await lesson_client.request("GET", rendering["url"])
    samples, rate = soundfile.read(io.BytesIO(sound.content))
    assert len(samples) / rate == pytest.approx(rendering["seconds"], abs=0.1)
    assert rendering["loudnessLufs"] == pytest.approx(-16, abs=0.5)
    sentences = [one for segment in narrated["narration"]["segments"] for one in segment["sentences"]]
    assert len(rendering["times"]) == len(sentences)
    assert rendering["times"][-1][1] < rendering["seconds"]
    subtitles = await lesson_client.request("GET", f"{NARRATION}?format=srt")
    assert re.search(r"1\n00:00:00,500 --> ", subtitles.text)
    assert subtitles.headers["X-Subtitle-Timing"] == "measured"
    assert (saved_as(subtitles), saved_as(sound)) == (
        "Photosynthesis, narration v1 measured.srt",
        "Photosynthesis.ogg",
    )
    measured = await lesson_client.request("GET", f"{NARRATION}?format=vtt")
    assert "NOTE\nTimes measured on the rendered speech" in measured.text
    chosen = await lesson_client.request("GET", f"{NARRATION}?format=vtt&timing=written")
    assert chosen.text == written.text
    hook = ok(await render(lesson_client, format="ogg", segment="hook"))
    assert hook["notices"][-1].startswith(f"planned for 10 s; the sound lasts {hook['seconds']:.1f} s")
    assert saved_as(await lesson_client.request("GET", hook["url"])) == "Photosynthesis, hook.ogg"
    assert saved_as(await lesson_client.request("GET", QUIZ)) == "Photosynthesis, quiz.md"
    assert (await render(lesson_client, segment="nobody")).status_code == 404
