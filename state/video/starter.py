"""Starter projects: invented videos to begin with, from a data file."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from callsheet.state.video.scene import Scene


@cache
def starters() -> Mapping[str, tuple[Scene, ...]]:
    """Return the starter projects by name."""
    text = files("callsheet.state.video").joinpath("starters.json").read_text(encoding="utf-8")
    projects: dict[str, list[object]] = json.loads(text)
    return {name: tuple(Scene.model_validate(scene) for scene in scenes) for name, scenes in projects.items()}
