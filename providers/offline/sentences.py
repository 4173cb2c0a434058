"""What the offline model says, per language, from a workflow's `replies/<language>.toml`."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def sentences(workflow: str, language: str) -> Mapping[str, str]:
    """Return a workflow's sentences by `group.name`; the English ones for a language that has no file."""
    folder = files(f"providers.offline.{workflow}").joinpath("replies")
    own = folder.joinpath(f"{language}.toml")
    text = (own if own.is_file() else folder.joinpath("english.toml")).read_text("utf-8")
    return {
        f"{group}.{name}": sentence
        for group, entries in tomllib.loads(text).items()
        for name, sentence in entries.items()
    }
