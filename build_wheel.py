"""Hatchling's hook: a wheel has inside of `callsheet/` what a checkout has beside it, and the built page."""

import runpy
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_CONSOLE: Final = PurePosixPath("server/console")
_SKIPPED: Final = frozenset({"__pycache__", "node_modules"})


class WheelHook(BuildHookInterface[Any]):
    """Includes the folders of the tree themselves, since a checkout may lack the symbolic links to them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to the wheel; an editable one is a path to the checkout, and has no files."""
        if version == "editable":
            return
        self._build_page()
        for name in self.config["inside"]:
            source = self._source(name)
            included = build_data["force_include"]
            if source.is_file():
                included[str(source)] = f"callsheet/{name}"
            for file in _files(source, PurePosixPath(name)):
                included[str(source / file)] = f"callsheet/{name}/{file}"

    def _source(self, name: str) -> Path:
        # A source distribution has them inside already: it is packed along the links.
        root = Path(self.root)
        return root / name if (root / name).exists() else root / "callsheet" / name

    def _build_page(self) -> None:
        program = self._source("server") / "console/build.py"
        if runpy.run_path(str(program))["main"](program.parent):
            self.app.display_warning("the wheel has no page; the server will say so at its address")


def _files(folder: Path, name: PurePosixPath) -> Iterator[PurePosixPath]:
    """Yield the files of a folder that belong into the wheel, relative to it; `name` is its own path."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        inside = PurePosixPath(path.name)
        if path.is_dir() and path.name not in _SKIPPED:
            yield from (inside / file for file in _files(path, name / path.name))
        # Of the page the built files belong into it, and not their sources.
        elif path.is_file() and (_CONSOLE not in (name / path.name).parents or _is_served(name / path.name)):
            yield inside


def _is_served(path: PurePosixPath) -> bool:
    return path.suffix == ".py" or _CONSOLE / "static" in path.parents
