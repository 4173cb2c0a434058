"""Features: what a workflow adds to the server beside the LangGraph wire.

A feature is one package `server/<domain>/` and one entry in `FEATURES`. The module that the entry names is
imported when the workflow is served; it holds `API`, a `FeatureApi`.
"""

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from callsheet.server.artefacts.features import FeatureApi

FEATURES: Final[Mapping[str, str]] = {
    "ad_creation": "callsheet.server.ads.routes",
    "fact_narration": "callsheet.server.lessons.routes",
    "campaign_search": "callsheet.server.campaigns.routes",
    "page_builder": "callsheet.server.pages.routes",
    "scene_edit": "callsheet.server.video.routes",
}
"""Module with the API of each workflow, by the workflow's name."""


def load_apis(workflows: Collection[str]) -> "dict[str, FeatureApi]":
    """Return the API of each of these workflows that has a feature, in the order of `FEATURES`."""
    return {name: import_module(module).API for name, module in FEATURES.items() if name in workflows}
