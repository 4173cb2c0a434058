"""Hatchling's hook: a wheel has inside of `callsheet/` what a checkout has beside it."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelHook(BuildHookInterface[Any]):
    """Includes the folders of the tree themselves, since a checkout may lack the symbolic links to them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folders to the wheel; an editable one is a path to the checkout, and has no files."""
        if version == "editable":
            return
        for name in self.config["inside"]:
            # A source distribution has them inside already: it is packed along the links.
            source = name if (Path(self.root) / name).exists() else f"callsheet/{name}"
            build_data["force_include"][source] = f"callsheet/{name}"
