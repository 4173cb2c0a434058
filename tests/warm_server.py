"""The warmed parent of `killing.Warm`: a line of JSON in, a forked server's process id out."""

import importlib
import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any

import uvicorn

from server import standalone
from server.app import create_app
from server.settings import read

for name in (
    "server.surface",
    "server.assembly",
    "server.engine",
    "providers.offline.model",
    "storage.checkpoints",
):
    importlib.import_module(name)


def serve(
    *,
    port: int,
    redis_url: str,
    lease_s: float,
    config: str | None = None,
    carry: bool = True,
    worker_port: int | None = None,
) -> None:
    chosen: dict[str, Any] = {"redis_url": redis_url, "lease_s": lease_s, "config": config}
    chosen["log_level"] = "error"
    if port:
        settings = read(port=port, carry_runs=carry, **chosen)
        uvicorn.run(create_app(settings), host="127.0.0.1", port=port, log_level="error")
    else:
        standalone.work(read(worker_port=worker_port, **chosen))


def main() -> None:
    # Children are not waited for: whoever asked for one kills it by its id.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    children = []
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            sys.stdin.close()
            # Standard output is the parent's, for process ids.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            serve(**json.loads(line))
            os._exit(0)
        children.append(child)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
