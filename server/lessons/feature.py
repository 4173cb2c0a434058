"""The feature of `fact_narration`: its routes, replies and checks of imports."""

from typing import Final

from callsheet.server.features import Feature
from callsheet.server.lessons import asset_routes, edits, narration_routes, routes, service, source_routes

FEATURE: Final = Feature(
    routers=(routes.router, source_routes.router, narration_routes.router, asset_routes.router),
    reply_builder=service.reply_builder,
    tags={"lessons": "Lessons: facts of a text, chosen by a person, narrated"},
    max_file_bytes=edits.MAX_LESSON_BYTES,
    file_url=lambda _artefact_id, thread_id, file_id: edits.source_file_url(thread_id, file_id),
)
