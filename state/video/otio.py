"""A project as a timeline in OpenTimelineIO's form: https://opentimelineio.readthedocs.io."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from callsheet.state.video.scene import FPS, Scene

_MEDIA: Final = "DEFAULT_MEDIA"


def timeline(project_id: str, title: str, scenes: Sequence[tuple[str, str, Scene]]) -> dict[str, Any]:
    """Return the timeline of scenes, each with id and version: a track of pictures, one of described sound.

    A scene has no media of its own, so each clip names a missing one; its metadata has the scene.
    """
    pictures = [
        _clip(scene.name or scene_id, scene.durationInFrames, _about(scene_id, version, scene))
        for scene_id, version, scene in scenes
    ]
    sounds = [part for scene_id, _, scene in scenes for part in _sounds(scene_id, scene)]
    tracks = [_track("Scenes", "Video", pictures), _track("Sound", "Audio", sounds)]
    stack = {"OTIO_SCHEMA": "Stack.1", **_item("tracks"), "children": tracks}
    return {
        "OTIO_SCHEMA": "Timeline.1",
        "metadata": {"callsheet": {"projectId": project_id}},
        "name": title or project_id,
        "global_start_time": None,
        "tracks": stack,
    }


def _sounds(scene_id: str, scene: Scene) -> Iterator[dict[str, Any]]:
    """Yield what lies on the track of sound while a scene is shown."""
    audio, length = scene.audio, scene.durationInFrames
    start = min(audio.start, length) if audio else length
    if start:
        yield {"OTIO_SCHEMA": "Gap.1", **_item("", start)}
    if audio and start < length:
        about = {"sceneId": scene_id, "description": audio.description, "volume": audio.volume}
        yield _clip(audio.description[:80], length - start, about)


def _about(scene_id: str, version: str, scene: Scene) -> dict[str, Any]:
    return {"sceneId": scene_id, "version": version, "scene": scene.data()}


def _track(name: str, kind: str, children: list[dict[str, Any]]) -> dict[str, Any]:
    return {"OTIO_SCHEMA": "Track.1", **_item(name), "kind": kind, "children": children}


def _clip(name: str, frames: int, about: dict[str, Any]) -> dict[str, Any]:
    missing: dict[str, Any] = {
        "OTIO_SCHEMA": "MissingReference.1",
        "metadata": {},
        "name": "",
        "available_range": None,
        "available_image_bounds": None,
    }
    return {
        "OTIO_SCHEMA": "Clip.2",
        **_item(name, frames, about),
        "media_references": {_MEDIA: missing},
        "active_media_reference_key": _MEDIA,
    }


def _item(name: str, frames: int = 0, about: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the fields of everything on a timeline; without frames it is as long as what it holds."""
    return {
        "metadata": {"callsheet": about} if about else {},
        "name": name,
        "source_range": _range(frames) if frames else None,
        "effects": [],
        "markers": [],
        "enabled": True,
        "color": None,
    }


def _range(frames: int) -> dict[str, Any]:
    return {"OTIO_SCHEMA": "TimeRange.1", "start_time": _time(0), "duration": _time(frames)}


def _time(frames: int) -> dict[str, Any]:
    return {"OTIO_SCHEMA": "RationalTime.1", "rate": float(FPS), "value": float(frames)}
