"""Features: what a workflow adds beside the LangGraph wire.

A feature is one package `server/<domain>/` and one entry in `FEATURES`. Its module `feature` is imported for
the help of the command line, so it must import nothing slow. The module that its `api` names is imported when
the workflow is served.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from callsheet.server.artefacts.features import FeatureApi

FEATURES: Final[Mapping[str, str]] = {
    "ad_creation": "callsheet.server.ads.feature",
    "fact_narration": "callsheet.server.lessons.feature",
    "campaign_search": "callsheet.server.campaigns.feature",
    "page_builder": "callsheet.server.pages.feature",
    "scene_edit": "callsheet.server.video.feature",
}
"""Module of each feature by its workflow's name; the module holds `FEATURE`."""


@dataclass(frozen=True, kw_only=True)
class Feature:
    """A workflow's entry on the command line and over REST."""

    title: str
    """The workflow's title: plural, for people."""
    command: Callable[..., None]
    """Command of `callsheet`, named like the function."""
    api: str
    """Module that holds `API`, a `FeatureApi`."""


def load_features() -> tuple[Feature, ...]:
    """Return all features, in the order of `FEATURES`."""
    return tuple(_feature(module) for module in FEATURES.values())


def load_apis(workflows: Collection[str]) -> "dict[str, FeatureApi]":
    """Return the API of each of these workflows that has a feature, in the order of `FEATURES`."""
    return {
        name: import_module(_feature(module).api).API
        for name, module in FEATURES.items()
        if name in workflows
    }


def _feature(module: str) -> Feature:
    feature: Feature = import_module(module).FEATURE
    return feature
