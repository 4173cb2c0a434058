"""Features: what a workflow adds beside the LangGraph wire.

A feature is one package `server/<domain>/` and one entry in `FEATURES`. Its module `feature` is imported when
its workflow is served.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fastapi import APIRouter

    from callsheet.server.runtime.execution import BuildReply
    from callsheet.storage.redis.connection import Storage
    from callsheet.storage.threads.file import ArtefactEntry

FEATURES: Final[Mapping[str, str]] = {
    "ad_creation": "callsheet.server.ads.feature",
    "fact_narration": "callsheet.server.lessons.feature",
    "page_builder": "callsheet.server.pages.feature",
}
"""Module of each feature by its workflow's name; the module holds `FEATURE`."""


def _accept(entry: "ArtefactEntry") -> None:
    del entry


@dataclass(frozen=True, kw_only=True)
class Feature:
    """Routes, replies and checks that one workflow adds."""

    routers: "tuple[APIRouter, ...]"
    """REST and web socket routes, in the order in which they are tried."""
    reply_builder: "Callable[[Storage], BuildReply]"
    """Makes the function that builds the replies to the workflow's domain runs."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """OpenAPI tags with their descriptions."""
    check_artefact: "Callable[[ArtefactEntry], None]" = _accept
    """Raises for an imported artefact that no person could have made; called after `check_version`."""
    max_file_bytes: int = 0
    """Total size of the files of one artefact."""
    file_url: Callable[[str, str, str], str] | None = None
    """Makes a file's URL of artefact id, thread id and file id."""


def load_features(workflows: Collection[str]) -> dict[str, Feature]:
    """Return the features of these workflows, in the order of `FEATURES`."""
    return {name: import_module(module).FEATURE for name, module in FEATURES.items() if name in workflows}
