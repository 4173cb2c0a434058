"""A worker without a server: carries runs out that any server on the same Redis was asked for."""

import asyncio
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import storage
from server import graphs_file, logs, process, telemetry, terminal
from server.app import installed
from server.observing import Observer
from server.serving import data_place
from server.settings import Settings
from storage import Storage

if TYPE_CHECKING:
    from server.assembly import Assembled


def work(settings: Settings) -> None:
    """Carry runs out until Ctrl-C or SIGTERM; what is under way then is handed over between two steps."""
    logs.configure(settings.log_level, settings.log_format)
    process.run(_work(settings, data_place(settings)))


async def _work(settings: Settings, where: str) -> None:
    # The workflows take longer to import than all the rest of the start.
    from server.assembly import assembled  # noqa: PLC0415
    from server.metrics import watching  # noqa: PLC0415

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopped.set)
    async with storage.connect(settings.redis_url, settings.data_dir) as opened, AsyncExitStack() as stack:
        storage.use(opened)
        stack.callback(storage.use, None)
        wanted = graphs_file.read(settings.config) if settings.config else None
        observer = Observer(telemetry.from_environment(installed()))
        await stack.enter_async_context(watching(observer, installed()))
        # It carries runs out whatever the servers do, which may read the same settings.
        carrying = settings.model_copy(update={"carry_runs": True})
        found = await assembled(opened, carrying, wanted, stack, observer)
        if settings.worker_port is not None:
            await _watched(found, carrying, opened, observer, stack)
        process.settled()
        console = terminal.console()
        console.print(f"Carrying out runs of {', '.join(sorted(found.graphs))} on {terminal.harmless(where)}")
        await stopped.wait()
        console.print("Stopping: what is under way is handed over.")


async def _watched(
    found: "Assembled", settings: Settings, opened: Storage, observer: Observer, stack: AsyncExitStack
) -> None:
    from server.api.events import Running  # noqa: PLC0415 -- as above
    from server.parts import Parts  # noqa: PLC0415
    from server.worker_health import answering  # noqa: PLC0415

    memory = found.memory
    parts = Parts(settings, opened, memory.saver, found.worker, Running(), found.graphs, memory.store)
    url = await stack.enter_async_context(answering(parts, observer, settings.worker_port or 0))
    terminal.console().print(f"Health and figures on {url}")
