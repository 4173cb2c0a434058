"""The process of `killing.WarmParent`: it has everything imported, and forks children on request.

It reads a request as a line of JSON and answers with the child's process id, or, if the request waits, with
the function's result and the exit code. A child without a waiting request is killed by its id, or with the
parent.
"""

import gc
import importlib
import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

from callsheet.server.features import FEATURES

# With all that a server imports when it starts: each child would import it again.
for name in (
    "callsheet.server.cli.main",
    "callsheet.server.app",
    "callsheet.server.engine.task_queue",
    "callsheet.providers.offline.model",
    "callsheet.providers.offline.ads",
    "callsheet.providers.offline.pages",
    "callsheet.providers.offline.lessons",
    "callsheet.storage.checkpoints",
    "tests.doubles.warm_work",
    "tests.doubles.warm_turn",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
    *FEATURES.values(),
    *(f"callsheet.graphs.{workflow}" for workflow in FEATURES),
):
    importlib.import_module(name)

# A child would search these modules for garbage, and copy their pages by it.
gc.freeze()

_children: set[int] = set()


def main() -> None:
    signal.signal(signal.SIGCHLD, lambda *_: _reap())
    for line in sys.stdin:
        request = json.loads(line)
        answer = _call(request) if request.pop("waits") else _fork(request)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for child in set(_children):
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _reap() -> None:
    for child in set(_children):
        # Another child may end now, and the signal's call of this function may reap it first.
        with suppress(ChildProcessError):
            if not os.waitpid(child, os.WNOHANG)[0]:
                continue
        _children.discard(child)


def _fork(request: dict[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        _carry_out(request, None)
    _children.add(child)
    _reap()
    return child


def _call(request: dict[str, Any]) -> tuple[Any, int]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _carry_out(request, writer)
    os.close(writer)
    with os.fdopen(reader) as reply:
        text = reply.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text or "null"), os.waitstatus_to_exitcode(status)


def _carry_out(request: dict[str, Any], writer: int | None) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.stdin.close()
    # Standard output is the parent's, for its answers.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    module, _, function = request["function"].partition(":")
    returned = getattr(importlib.import_module(module), function)(**request["arguments"])
    if writer is not None:
        os.write(writer, json.dumps(returned).encode())
    # Not to the end of `main`, which is the parent's; an error goes that way, and says what it is.
    os._exit(0)


if __name__ == "__main__":
    main()
