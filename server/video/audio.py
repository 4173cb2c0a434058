"""The sound of a film: the words of its narrated scenes and a bed of music, kept by its digest for a day."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from callsheet.providers.speech import Line, SpeechEngines
from callsheet.server.artefacts.recordings import Details, Mix, Report, find_or_render
from callsheet.server.artefacts.speech import digest_of, find_speech, require_audio, speech_of
from callsheet.server.video import projects
from callsheet.server.video.projects import ProjectRef
from callsheet.state.ads.profiles import PROFILES
from callsheet.state.ads.timeline import PAUSE_S, speaking_time_s
from callsheet.state.errors import Conflict, Missing, TooLarge
from callsheet.state.pronunciations import respell
from callsheet.state.video.scene import FPS, Scene
from callsheet.storage import pronunciations
from callsheet.storage.artefacts import recordings
from callsheet.storage.artefacts.recordings import RecordingRecord
from callsheet.tools.audio.casting import narrator_lines
from callsheet.tools.guard.sandbox import SandboxTask, TaskLimits

MAX_S: Final = 300.0
"""Longest film whose sound is rendered, by its frames and the estimated time of its words."""
_SPEECH_MAX_S: Final = 2 * MAX_S
"""Longest film with the words as they were spoken, which may take longer than estimated."""
_VERSION: Final = 2
"""Version of the rendering: another one makes every sound again."""
_LIMITS: Final = TaskLimits(memory_bytes=3 * 2**29, cpu_s=180.0, output_bytes=60_000_000)


class FilmSound(BaseModel):
    """Choice of a film's sound."""

    model_config = ConfigDict(extra="forbid")

    narration: bool = Field(default=True, description="False leaves out the words of narrated scenes")
    music: str = Field("", max_length=500, description="Description of a bed of music, such as calm; or none")
    format: Literal["mp3", "ogg", "wav"] = "mp3"


class SpokenText(TypedDict):
    """A text of a narrated scene, with the seconds of the film at which it is spoken."""

    start: float
    end: float
    text: str
    """As it is written, not as a name is respelled."""


class FilmSoundRendering(TypedDict):
    """A rendered sound of a film."""

    projectId: str
    url: str
    """Path of the file, for a day."""
    format: str
    size: int
    seconds: float
    frames: list[int]
    """Frames of each scene, in order: one whose words last longer than it is held until they are spoken."""
    loudnessLufs: float | None
    """Measured on the file; null for silence."""
    truePeakDbtp: float | None
    notices: list[str]
    """Sentences on the voice that speaks and the music that is heard."""
    words: list[SpokenText]
    """Of the captions, in order; empty without narration."""


@dataclass(frozen=True)
class FilmScore:
    """Everything that the sound of a film is made of."""

    ref: ProjectRef
    request: FilmSound
    scenes: Sequence[Scene]
    lines: list[list[Line]]
    """Spoken lines of each scene."""
    speech: SpeechEngines
    versions: Mapping[str, str]
    """Newest version of each scene."""

    @property
    def digest(self) -> str:
        """Name of the rendered file: the same score has the same."""
        scenes = [_place(scene) for scene in self.scenes]
        lines = [[asdict(line) for line in of_scene] for of_scene in self.lines]
        return digest_of("film", _VERSION, self.request.model_dump(), scenes, lines, self.speech.model)


async def read_score(ref: ProjectRef, request: FilmSound) -> FilmScore:
    """Return what is to be rendered; write nothing.

    Raises `Conflict` for a film with nothing to hear, or in a language that nothing here speaks, `TooLarge`
    for one that is too long, and `NotInstalled`.
    """
    require_audio()
    _, heads = await projects.read_scenes(ref.artefact)
    newest = {name: head.newest for name, head in heads.items() if head.newest}
    scenes = [Scene.model_validate(one.data["scene"]) for one in newest.values()]
    _require_short([scene.durationInFrames / FPS for scene in scenes], "lasts")
    speech = find_speech()
    names = await pronunciations.read(ref.ctx.storage, ref.owner) if request.narration else {}
    lines = [_lines(scene, names, speech) if request.narration else [] for scene in scenes]
    if not any(lines) and not (request.music and scenes):
        raise Conflict(
            f"project {ref.artefact.id!r} has no words that a film speaks, and no music is chosen",
            remedy="name a `music`, or make the project of a lesson's narration",
        )
    # In a thread, because a project may have hundreds of thousands of characters.
    estimates_s = await asyncio.to_thread(lambda: [*map(_estimate_s, scenes, lines)])
    _require_short(estimates_s, "with the time that its words need lasts about")
    versions = {name: one.id for name, one in newest.items()}
    return FilmScore(ref, request, scenes, lines, speech, versions)


def _require_short(lengths_s: Sequence[float], lasts: str) -> None:
    if (length_s := sum(lengths_s)) > MAX_S:
        rule = f"the film {lasts} {length_s:.0f} s, and the sound of at most {MAX_S:g} s is rendered"
        raise TooLarge(rule, remedy="shorten its scenes and their words, or make the film without sound")


def _estimate_s(scene: Scene, lines: Sequence[Line]) -> float:
    """Return the seconds that a scene is shown, at least until its words are spoken."""
    start = scene.audio.start if scene.audio and lines else 0
    words_s = sum(speaking_time_s(line.text, line.language) + PAUSE_S for line in lines)
    return max(scene.durationInFrames / FPS, start / FPS + words_s)


def _lines(scene: Scene, names: Mapping[str, str], speech: SpeechEngines) -> list[Line]:
    audio = scene.audio
    if audio is None or not audio.spokenLanguage:
        return []
    texts = [respell(text, names) for text in _texts(scene)]
    return narrator_lines(texts, audio.spokenLanguage, speech)


def _texts(scene: Scene) -> list[str]:
    return [text for text in scene.audio.description.splitlines() if text.strip()] if scene.audio else []


def _place(scene: Scene) -> dict[str, Any]:
    """Return the frames of a scene, and place and volume of its words."""
    audio = scene.audio
    return {
        "frames": scene.durationInFrames,
        "start": audio.start if audio else 0,
        "volume": audio.volume if audio else 1.0,
    }


async def find_rendering(score: FilmScore) -> RecordingRecord | None:
    """Return the record of the rendered file, or None."""
    return await recordings.find(score.ref.ctx.storage, score.ref.artefact, score.digest)


def missing_rendering(score: FilmScore) -> Missing:
    """Return the error for a file that is not kept."""
    project_id = score.ref.artefact.id
    return Missing(
        f"the sound of project {project_id!r} as it is now was not rendered, or more than a day ago",
        remedy=f"render it: POST /api/projects/{quote(project_id, safe='')}/film/render with the same fields",
    )


async def render(score: FilmScore, report: Report) -> FilmSoundRendering:
    """Render the sound, unless its file is kept already, and return its view.

    An owner's renderings take turns. Raises what the engine of speech raises, and `TooLarge`.
    """
    find = partial(find_rendering, score)
    record = await find_or_render(score.ref.owner, find, partial(_render, score, report), "shorten it")
    return _view(score, record)


async def _render(score: FilmScore, report: Report) -> RecordingRecord:
    ref, storage = score.ref, score.ref.ctx.storage
    lines = [line for of_scene in score.lines for line in of_scene]
    report("speech", 0, len(lines))
    async with speech_of(storage, ref.owner, score.speech, lines) as sounds:
        report("speech", len(lines), len(lines))
        sizes = iter([len(sound) for sound in sounds])
        scenes = [
            {**_place(scene), "sizes": [next(sizes) for _ in of_scene]}
            for scene, of_scene in zip(score.scenes, score.lines, strict=True)
        ]
        notices = [f"Preview voice: {lines[0].speaker} speaks"] if lines and score.speech.is_local else []
        options = {"profile": asdict(PROFILES["plain"]), "format": score.request.format}
        tags = {"title": ref.artefact.id, "comment": ". ".join(["Sound of a film", *notices])}
        arguments = {
            "scenes": scenes,
            "music": score.request.music,
            "max_s": _SPEECH_MAX_S,
            "options": {**options, "tags": tags},
        }
        sound = b"".join(sounds)
        task = SandboxTask("the sound", "callsheet.tools.audio.soundtrack", "score_film", arguments, sound)

        def details(mixed: dict[str, Any]) -> Details:
            notes = mixed.pop("notes")
            return {**mixed, "notices": [*notices, *notes], "versions": dict(score.versions)}

        return await Mix(storage, ref.artefact, score.digest, task, _LIMITS, details).store(report)


def _view(score: FilmScore, record: RecordingRecord) -> FilmSoundRendering:
    details, project_id = record["details"], score.ref.artefact.id
    query = {name: str(value).lower() for name, value in score.request.model_dump().items() if value != ""}
    texts = [
        text
        for scene, of_scene in zip(score.scenes, score.lines, strict=True)
        if of_scene
        for text in _texts(scene)
    ]
    return FilmSoundRendering(
        projectId=project_id,
        url=f"/api/projects/{quote(project_id, safe='')}/film/audio?{urlencode(query)}",
        format=score.request.format,
        size=record["size"],
        seconds=details["seconds"],
        frames=details["frames"],
        loudnessLufs=details["loudnessLufs"],
        truePeakDbtp=details["truePeakDbtp"],
        notices=details["notices"],
        words=[
            SpokenText(start=round(start, 3), end=round(end, 3), text=text.strip())
            for (start, end), text in zip(details["spans"], texts, strict=True)
        ],
    )
