"""The routes, replies and import checks of `page_builder`."""

from typing import Final

from callsheet.server.artefacts.features import FeatureApi
from callsheet.server.pages import chat_routes, chat_socket, routes, service, upload_routes
from callsheet.server.pages.chat_events import ConversationView
from callsheet.state.uploads import MAX_PAGE
from callsheet.tools.pages.uploads import upload_url

API: Final = FeatureApi(
    routers=(
        routes.list_router,
        routes.router,
        upload_routes.router,
        chat_routes.router,
        chat_socket.router,
    ),
    reply_builder=service.reply_builder,
    translator=lambda ctx, thread: ConversationView(ctx.worker, thread.id),
    tags={"pages": "Landing pages: edited by chat, each edit a version"},
    max_file_bytes=MAX_PAGE,
    file_url=lambda artefact_id, _thread_id, file_id: upload_url(artefact_id, file_id),
)
