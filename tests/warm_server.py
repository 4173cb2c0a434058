"""The warmed parent of `killing.Warm`: a line of JSON in, a forked server's process id out."""

import importlib
import json
import os
import signal
import sys
from contextlib import suppress

import uvicorn

from server.app import create_app
from server.settings import read

for name in ("server.surface", "server.worker", "providers.offline.model", "storage.checkpoints"):
    importlib.import_module(name)


def serve(port: int, redis_url: str, lease_s: float) -> None:
    settings = read(port=port, redis_url=redis_url, lease_s=lease_s, log_level="error")
    uvicorn.run(create_app(settings), host="127.0.0.1", port=port, log_level="error")


def main() -> None:
    # Children are not waited for: whoever asked for one kills it by its id.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    children = []
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            sys.stdin.close()
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
