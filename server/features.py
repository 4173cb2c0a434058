"""Features: what a workflow adds beside the LangGraph wire.

A feature is one package `server/<domain>/` and one entry in `FEATURES`. Its module `command` is imported for
the help of the command line, so it must import nothing slow. Its module `routes`, which holds `API`, is
imported when the workflow is served.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from callsheet.server.artefacts.features import FeatureApi


@dataclass(frozen=True, kw_only=True)
class Feature:
    """A workflow's entry on the command line and over REST."""

    title: str
    """The workflow's title: plural, for people."""
    package: str
    """Package below `server/`."""
    command: str
    """Command of `callsheet`, and the name of its function."""

    def load_command(self) -> Callable[..., None]:
        """Return the function of the command."""
        command: Callable[..., None] = getattr(
            import_module(f"callsheet.server.{self.package}.command"), self.command
        )
        return command

    def load_api(self) -> "FeatureApi":
        """Return what the workflow adds over REST."""
        api: FeatureApi = import_module(f"callsheet.server.{self.package}.routes").API
        return api


FEATURES: Final[Mapping[str, Feature]] = {
    "ad_creation": Feature(title="audio ads", package="ads", command="ad"),
    "fact_narration": Feature(title="lessons", package="lessons", command="lesson"),
    "campaign_search": Feature(title="campaign questions", package="campaigns", command="ask"),
    "page_builder": Feature(title="landing pages", package="pages", command="page"),
    "scene_edit": Feature(title="videos", package="video", command="scenes"),
}
"""Features by their workflow's name."""


def load_apis(workflows: Collection[str]) -> "dict[str, FeatureApi]":
    """Return the API of each of these workflows that has a feature, in the order of `FEATURES`."""
    return {name: feature.load_api() for name, feature in FEATURES.items() if name in workflows}
