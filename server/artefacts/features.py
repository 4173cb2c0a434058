"""Routes, replies and checks that a workflow adds; `server/features.py` lists the workflows that do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastapi import APIRouter

from callsheet.server.artefacts.executions import PlanEdits
from callsheet.server.engine.execution import BuildReply
from callsheet.server.http.context import AppContext
from callsheet.storage.archive.file import ArtefactEntry
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads.threads import Thread

if TYPE_CHECKING:
    from callsheet.server.artefacts.conversation_stream import FrameTranslator


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
    plan_edits: PlanEdits = field(default_factory=PlanEdits)
    """Changes of its plans by people."""
    max_file_bytes: int = 0
    """Total size of the files of one artefact."""
    file_url: Callable[[str, str, str], str] | None = None
    """Makes a file's URL of artefact id, thread id and file id."""


def feature_of(ctx: AppContext, graph: str) -> FeatureApi | None:
    """Return the features of a workflow by its graph; None if it has none."""
    feature = ctx.features.get(graph)
    return feature if isinstance(feature, FeatureApi) else None
