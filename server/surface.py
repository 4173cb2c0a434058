"""All of the server that is slow to import: the workflows, and the routes that need them."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple, cast

from fastapi import APIRouter
from langgraph.pregel import Pregel
from langgraph.store.base import TTLConfig
from starlette.routing import BaseRoute

from graphs import ad_creation, fact_narration, page_builder
from nodes.node import OWNER
from server import loading
from server.aftermath import Tell
from server.api import (
    ads,
    archives,
    chat_socket,
    health,
    lesson_assets,
    lesson_narration,
    lesson_sources,
    lessons,
    page_chat,
    pages,
    tools,
    uploads,
    versions,
)
from server.graphs_file import GraphsFile
from server.parts import Parts
from server.settings import Settings
from server.wire import (
    assistants,
    commands,
    crons,
    expiry,
    info,
    protocol_events,
    protocol_socket,
    runs,
    states,
    threads,
    webhooks,
)
from server.wire import store as memories
from state.owners import LOCAL
from storage.checkpoints import RedisSaver
from storage.connection import Storage
from storage.store import RedisStore, running_owner

Graphs = Mapping[str, Pregel[Any, Any]]
GRAPHS: Final[Graphs] = {
    "ad_creation": ad_creation.graph,
    "fact_narration": fact_narration.graph,
    "page_builder": page_builder.graph,
}
_OURS: Final[Mapping[str, tuple[APIRouter, ...]]] = {
    "ad_creation": (ads.router, versions.router),
    "fact_narration": (
        lessons.router,
        lesson_sources.router,
        lesson_narration.router,
        lesson_assets.router,
    ),
    "page_builder": (pages.shelf, pages.router, uploads.router, page_chat.router, chat_socket.router),
}
"""What a workflow has beside the wire; in this order, since what an ad has comes before its streams."""
_ALWAYS: Final[tuple[APIRouter, ...]] = (health.router, archives.router, tools.router)
_WIRE: Final[tuple[APIRouter, ...]] = (
    # First what is asked for most: routes are tried in their order.
    runs.router,
    threads.router,
    states.router,
    assistants.router,
    info.router,
    crons.router,
    commands.router,
    protocol_events.router,
    protocol_socket.router,
    memories.router,
)


class Memory(NamedTuple):
    """What every graph remembers in."""

    saver: RedisSaver
    store: RedisStore


def store(storage: Storage, wanted: GraphsFile | Graphs | None) -> RedisStore:
    """Return the store, in which a run finds what its owner put there."""
    ttl = cast("TTLConfig", dict(wanted.store_ttl)) if isinstance(wanted, GraphsFile) else None
    return RedisStore(storage, running_owner(OWNER, LOCAL), ttl or None)


async def served(wanted: GraphsFile | Graphs | None, memory: Memory, stack: AsyncExitStack) -> Graphs:
    """Return the graphs that are served, with storage attached: ours unless others are wanted."""
    found = await loading.loaded(wanted, stack) if isinstance(wanted, GraphsFile) else wanted or GRAPHS
    return loading.attached(found, memory.saver, memory.store)


def routes(graphs: Graphs) -> list[BaseRoute]:
    """Return the routes for these graphs: those of a workflow only where it is served.

    They are for an application's own list: `include_router` makes each again, at the first
    request, and matches it twice.
    """
    ours = [router for name, routers in _OURS.items() if name in graphs for router in routers]
    return [route for router in (*_WIRE, *_ALWAYS, *ours) for route in router.routes]


def telling(settings: Settings) -> Tell:
    """Return how webhooks are told."""
    secret = settings.webhook_secret.get_secret_value() if settings.webhook_secret else ""
    return webhooks.Webhooks(secret, private=settings.webhook_private).tell


def beside(here: Parts) -> tuple[Callable[[], Awaitable[object]], ...]:
    """Begin what a server does beside answering, and return what ends it.

    Threads are taken away whose time is over, and runs start by schedule.
    """
    return expiry.begun(here), crons.begun(here)
