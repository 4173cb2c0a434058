"""The routes and replies of `scene_edit`."""

from typing import Final

from callsheet.server.artefacts.features import FeatureApi
from callsheet.server.video import execution_routes, executions, project_routes, service, settings_routes

API: Final = FeatureApi(
    routers=(
        execution_routes.project_router,
        project_routes.list_router,
        project_routes.router,
        settings_routes.router,
        settings_routes.context_router,
    ),
    plan_edits=executions.SceneEdits(),
    reply_builder=service.reply_builder,
    tags={"videos": "Videos of many scenes: edited by plans that can be changed while they run"},
)
