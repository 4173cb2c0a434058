"""A worker in this process for as long as one command of the terminal takes."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from langgraph.pregel import Pregel

import storage
from server import jobs
from server.house import governed
from server.settings import Settings
from server.worker import Worker, working
from storage.connection import Storage


@asynccontextmanager
async def at_hand(
    settings: Settings, graphs: Mapping[str, Pregel[Any, Any]]
) -> AsyncIterator[tuple[Worker, Storage]]:
    """Have a worker that carries out runs of these graphs, on the server's storage and its terms."""
    with governed(settings):
        async with (
            storage.connect(settings.redis_url, settings.data_dir) as opened,
            _carrying(opened, settings, graphs) as worker,
        ):
            yield worker, opened


@asynccontextmanager
async def _carrying(
    opened: Storage, settings: Settings, graphs: Mapping[str, Pregel[Any, Any]]
) -> AsyncIterator[Worker]:
    storage.use(opened)
    try:
        # Who presses Ctrl-C wants the prompt back; the run goes on in another process, or the next time.
        terms = jobs.terms(opened, settings.lease_s, settings.run_timeout_s)
        terms = replace(terms, grace_s=0.2, at_once=settings.runs_at_once)
        async with working(opened, graphs, terms) as worker:
            yield worker
    finally:
        storage.use(None)
