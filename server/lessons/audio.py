"""The sound of a narration, whole or by segment, kept by the digest of all that it is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from callsheet.providers.speech import Line, SpeechEngines
from callsheet.server.artefacts.recordings import Details, Mix, Report, find_or_render
from callsheet.server.artefacts.speech import digest_of, find_speech, require_audio, speech_of
from callsheet.server.lessons import edits
from callsheet.server.lessons.edits import Lesson
from callsheet.state.ads.profiles import PROFILES
from callsheet.state.errors import Conflict, Missing, NotInstalled
from callsheet.state.lessons.narration import Narration, Segment, length_words
from callsheet.state.lessons.narration_export import Times, segment_times
from callsheet.state.pronunciations import respell
from callsheet.storage import pronunciations
from callsheet.storage.artefacts import recordings
from callsheet.storage.artefacts.recordings import RecordingRecord
from callsheet.tools.audio.casting import narrator_lines
from callsheet.tools.guard.sandbox import SandboxTask, TaskLimits

_PROFILE: Final = PROFILES["podcast"]
_VERSION: Final = 1
"""Version of the rendering: another one makes every narration again."""
_LIMITS: Final = TaskLimits(memory_bytes=3 * 2**29, cpu_s=180.0, output_bytes=60_000_000)


class NarrationSound(BaseModel):
    """Choice of a rendering."""

    model_config = ConfigDict(extra="forbid")

    version: str | None = Field(None, max_length=80, description="The newest when left out")
    segment: str | None = Field(None, max_length=80, description="A segment's id; all when left out")
    format: Literal["mp3", "ogg", "wav"] = "mp3"


class NarrationRendering(TypedDict):
    """A rendered file."""

    sessionId: str
    version: str
    segment: str | None
    url: str
    """Path of the file, for a day."""
    format: str
    size: int
    seconds: float
    loudnessLufs: float | None
    truePeakDbtp: float | None
    notices: list[str]
    """Sentences on the voice that speaks."""
    times: list[tuple[float, float]]
    """Start and end of each sentence in seconds."""


@dataclass(frozen=True)
class NarrationScore:
    """Everything that the sound of a narration is made of."""

    lesson: Lesson
    request: NarrationSound
    version: str
    segments: tuple[Segment, ...]
    lines: list[Line]
    speech: SpeechEngines
    title: str = ""
    """Title in the file; the session's id when left out. Another title alone is not rendered again."""

    @property
    def digest(self) -> str:
        """Name of the rendered file: the same score has the same."""
        counts = [len(segment.sentences) for segment in self.segments]
        lines = [asdict(line) for line in self.lines]
        return digest_of(_VERSION, self.request.format, counts, lines, self.speech.model)


async def read_score(lesson: Lesson, request: NarrationSound) -> NarrationScore:
    """Return what is to be rendered; write nothing.

    Raises `Missing` without a narration or for an unknown segment, `Conflict` for a language that nothing
    here speaks, and `NotInstalled`.
    """
    require_audio()
    stored = await edits.get_narration(lesson, request.version)
    narration = Narration.model_validate(stored.data)
    segments = (narration.segment(request.segment),) if request.segment else narration.segments
    texts = [sentence.text for segment in segments for sentence in segment.sentences]
    if not texts:
        raise Missing("the narration has no sentence to speak", remedy="write its segments first")
    speech = find_speech()
    names = await pronunciations.read(lesson.storage, lesson.thread.owner)
    texts = [respell(text, names) for text in texts]
    lines = narrator_lines(texts, narration.language, speech)
    return NarrationScore(lesson, request, stored.id, segments, lines, speech)


async def find_rendering(score: NarrationScore) -> RecordingRecord | None:
    """Return the record of the rendered file, or None."""
    return await recordings.find(score.lesson.storage, score.lesson.artefact, score.digest)


async def get_rendering(lesson: Lesson, version: str | None) -> RecordingRecord:
    """Return the record of the rendered narration in any format; raise `Missing` if there is none.

    Raises as `read_score`, too.
    """
    score = await read_score(lesson, NarrationSound(version=version))
    for file_format in ("mp3", "ogg", "wav"):
        request = NarrationSound(version=version, format=file_format)
        if record := await find_rendering(replace(score, request=request)):
            return record
    raise Missing(
        "the narration was not rendered, or more than a day ago, so its speech has no times",
        remedy="render it: POST /api/agent-create/session/narration/render",
    )


class SoundLength(NamedTuple):
    """The sound of a narration as it was rendered."""

    times: Times
    """Start and end of each sentence in seconds."""
    length: str
    """Length of the narration in words."""


async def sound_length(lesson: Lesson, version: str | None) -> SoundLength:
    """Return what the rendered narration lasts; raise as `get_rendering`."""
    record = await get_rendering(lesson, version)
    narration = Narration.model_validate((await edits.get_narration(lesson, version)).data)
    times = [(start, end) for start, end in record["details"]["times"]]
    return SoundLength(times, _measured_words(narration.total_duration, record["details"]))


async def find_sound_length(lesson: Lesson, version: str | None) -> SoundLength | None:
    """Return as `sound_length`; None for a narration that was not rendered, or cannot be here."""
    try:
        return await sound_length(lesson, version)
    except (Missing, Conflict, NotInstalled):
        return None


async def measured_length(lesson: Lesson, newest: Narration) -> dict[str, Any]:
    """Return the fields of a session on the sound of its narration; {} if it was not rendered."""
    sound = await find_sound_length(lesson, None)
    return {"speech": sound.length, "segmentTimes": segment_times(newest, sound.times)} if sound else {}


def _measured_words(planned_s: float, details: Mapping[str, Any]) -> str:
    return length_words(planned_s, _speech_s(details["times"]), details["seconds"])


def _speech_s(times: Sequence[Sequence[float]]) -> float:
    return sum(end - start for start, end in times)


async def render(score: NarrationScore, report: Report) -> NarrationRendering:
    """Render the narration, unless its file is kept already, and return its view.

    An owner's renderings take turns. Raises what the engine of speech raises, and `TooLarge`.
    """
    owner, find = score.lesson.thread.owner, partial(find_rendering, score)
    record = await find_or_render(owner, find, partial(_render, score, report), "render one segment")
    return _view(score, record)


async def _render(score: NarrationScore, report: Report) -> RecordingRecord:
    lesson, count = score.lesson, len(score.lines)
    report("speech", 0, count)
    async with speech_of(lesson.storage, lesson.thread.owner, score.speech, score.lines) as sounds:
        report("speech", count, count)
        notices = [f"Preview voice: {score.lines[0].speaker} speaks"] if score.speech.is_local else []
        sizes = iter([len(sound) for sound in sounds])
        arguments = {
            "sizes": [[next(sizes) for _ in segment.sentences] for segment in score.segments],
            "options": _options(score, notices),
        }
        task = SandboxTask(
            "the narration", "callsheet.tools.audio.narrating", "narrate", arguments, b"".join(sounds)
        )

        def details(mixed: dict[str, Any]) -> Details:
            return {**mixed, "notices": notices, "versions": {"narration": score.version}}

        return await Mix(lesson.storage, lesson.artefact, score.digest, task, _LIMITS, details).store(report)


def _options(score: NarrationScore, notices: list[str]) -> Mapping[str, Any]:
    tags = {
        "title": score.title or score.lesson.thread.id,
        "comment": ". ".join([f"From {score.version}", *notices]),
    }
    return {"profile": asdict(_PROFILE), "format": score.request.format, "tags": tags}


def _view(score: NarrationScore, record: RecordingRecord) -> NarrationRendering:
    details, request, session = record["details"], score.request, score.lesson.thread.id
    chosen = request.model_dump(exclude_none=True) | {"sessionId": session}
    planned_s = sum(segment.duration for segment in score.segments)
    return NarrationRendering(
        sessionId=session,
        version=score.version,
        segment=request.segment,
        url=f"/api/agent-create/session/narration/audio?{urlencode(chosen)}",
        format=request.format,
        size=record["size"],
        seconds=details["seconds"],
        loudnessLufs=details["loudnessLufs"],
        truePeakDbtp=details["truePeakDbtp"],
        notices=[*details["notices"], f"{_measured_words(planned_s, details)}."],
        times=details["times"],
    )
