"""The warmed parent of `killing.Warm`: it has everything imported, and forks whoever is asked for.

A line of JSON in says what is to be done; out comes the forked child's process id, or, where the end is
waited for, what it returned and how it ended. A child that is not waited for is killed by its id, or with
the parent.
"""

import importlib
import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

for name in (
    "callsheet.server.cli.main",
    "callsheet.server.features",
    "callsheet.server.assembly",
    "callsheet.server.engine.task_queue",
    "callsheet.providers.offline.model",
    "callsheet.providers.offline.ads",
    "callsheet.providers.offline.pages",
    "callsheet.providers.offline.lessons",
    "callsheet.storage.checkpoints",
    "tests.doubles.warm_work",
    "tests.doubles.warm_turn",
):
    importlib.import_module(name)

_children: set[int] = set()


def main() -> None:
    signal.signal(signal.SIGCHLD, lambda *_: _reap())
    for line in sys.stdin:
        asked = json.loads(line)
        answer = _ended(asked) if asked.pop("waits") else _begun(asked)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for child in set(_children):
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _reap() -> None:
    for child in set(_children):
        # Another child may end meanwhile, and the signal's call of this function take it first.
        with suppress(ChildProcessError):
            if not os.waitpid(child, os.WNOHANG)[0]:
                continue
        _children.discard(child)


def _begun(asked: dict[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        _carry_out(asked, None)
    _children.add(child)
    _reap()
    return child


def _ended(asked: dict[str, Any]) -> tuple[Any, int]:
    heard, answers = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        _carry_out(asked, answers)
    os.close(answers)
    with os.fdopen(heard) as told:
        text = told.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text or "null"), os.waitstatus_to_exitcode(status)


def _carry_out(asked: dict[str, Any], answers: int | None) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.stdin.close()
    # Standard output is the parent's, for its answers.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    module, _, function = asked["what"].partition(":")
    returned = getattr(importlib.import_module(module), function)(**asked["how"])
    if answers is not None:
        os.write(answers, json.dumps(returned).encode())
    # Not to the end of `main`, which is the parent's; an error goes that way, and says what it is.
    os._exit(0)


if __name__ == "__main__":
    main()
