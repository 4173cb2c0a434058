"""Rules of the plans of videos."""

from typing import Final

from callsheet.state.live_plan import PlanRules
from callsheet.state.video.project import ORDER

RULES: Final = PlanRules(
    creators=frozenset({"addScene", "duplicateScene"}),
    once=frozenset({"addScene", "duplicateScene", "deleteScene", "restoreScene"}),
    editable=frozenset({"prompt", "name", "durationSeconds", "volume", "queries", "sources"}),
    preview=("versionId", "versions", "error"),
    version_event="scene-update",
    stream_key="sceneId",
    unannounced=frozenset({ORDER}),
    limited=False,
    kept=True,
)
