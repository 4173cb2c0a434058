"""The routes, replies and import checks of `fact_narration`."""

from typing import Final

from callsheet.server.artefacts.features import FeatureApi
from callsheet.server.lessons import asset_routes, edits, narration_routes, routes, service, source_routes

API: Final = FeatureApi(
    routers=(routes.router, source_routes.router, narration_routes.router, asset_routes.router),
    reply_builder=service.reply_builder,
    tags={"lessons": "Lessons: facts of a text, chosen by a person, narrated"},
    max_file_bytes=edits.MAX_LESSON_BYTES,
    file_url=lambda _artefact_id, thread_id, file_id: edits.source_file_url(thread_id, file_id),
)
