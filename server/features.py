"""Features: what a workflow adds beside the LangGraph wire.

A feature is one package `server/<domain>/` and one entry in `FEATURES`. Its module `feature` is imported for
the help of the command line, so it must import nothing slow. The module that its `api` names is imported when
the workflow is served.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fastapi import APIRouter

    from callsheet.server.artefacts.conversation_stream import FrameTranslator
    from callsheet.server.context import AppContext
    from callsheet.server.runtime.execution import BuildReply
    from callsheet.storage.archive.file import ArtefactEntry
    from callsheet.storage.redis.connection import Storage
    from callsheet.storage.threads.threads import Thread

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


def _accept(entry: "ArtefactEntry") -> None:
    del entry


@dataclass(frozen=True, kw_only=True)
class FeatureApi:
    """Routes, replies and import checks of one workflow."""

    routers: "tuple[APIRouter, ...]"
    """REST and web socket routes, in the order in which they are tried."""
    reply_builder: "Callable[[Storage], BuildReply]"
    """Makes the function that builds the replies to the workflow's domain runs."""
    translator: "Callable[[AppContext, Thread], FrameTranslator] | None" = None
    """Makes the translator of a conversation's stored events; steps, drafts, words and a result if unset."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """OpenAPI tags with their descriptions."""
    check_artefact: "Callable[[ArtefactEntry], None]" = _accept
    """Raises for an imported artefact that no person could have made; called after `check_version`."""
    max_file_bytes: int = 0
    """Total size of the files of one artefact."""
    file_url: Callable[[str, str, str], str] | None = None
    """Makes a file's URL of artefact id, thread id and file id."""


def load_features() -> tuple[Feature, ...]:
    """Return all features, in the order of `FEATURES`."""
    return tuple(_feature(module) for module in FEATURES.values())


def load_apis(workflows: Collection[str]) -> dict[str, FeatureApi]:
    """Return the API of each of these workflows that has a feature, in the order of `FEATURES`."""
    return {
        name: import_module(_feature(module).api).API
        for name, module in FEATURES.items()
        if name in workflows
    }


def _feature(module: str) -> Feature:
    feature: Feature = import_module(module).FEATURE
    return feature
