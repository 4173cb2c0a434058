"""Prompts as files: Markdown in a folder `prompts`, named with the hash of its content.

A hash in the metadata of checkpoints and traces says which words a result comes from.
"""

import hashlib
import sys
from collections.abc import Iterable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from callsheet.tools.registry import Tool

FOLDER: Final = "prompts"
_SUFFIX: Final = ".md"
_HASH_CHARS: Final = 12


def read_prompt(folder: Traversable, name: str) -> str:
    """Return the prompt of this name without the whitespace around it; empty where there is no file."""
    file = folder.joinpath(f"{name}{_SUFFIX}")
    return file.read_text("utf-8").strip() if file.is_file() else ""


def named_version(name: str, *texts: str) -> str:
    """Return a name with the hash of its texts."""
    return f"{name}@{hashlib.sha256(''.join(texts).encode()).hexdigest()[:_HASH_CHARS]}"


def tool_prompt_versions(tools: Iterable[Tool]) -> str:
    """Return name and hash of every prompt in the packages of these tools, by name."""
    packages = {str(getattr(one.run, "__module__", "")).rpartition(".")[0] for one in tools}
    return ", ".join(sorted(version for package in packages for version in _versions(package)))


def _versions(package: str) -> Iterator[str]:
    # A module that was loaded by its path has no package to look in.
    if package not in sys.modules or not (folder := files(package).joinpath(FOLDER)).is_dir():
        return
    for file in folder.iterdir():
        if file.name.endswith(_SUFFIX):
            name = file.name.removesuffix(_SUFFIX)
            yield named_version(name, read_prompt(folder, name))
