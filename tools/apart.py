"""Tools that get a process of their own, with limits that the system keeps (C51-C53).

The process is a fresh interpreter with an empty environment and an empty working directory: it has no keys
and no connection to storage, and dies with the call. It is given the tool by the name of its module, and
arguments and scope as JSON, and answers with JSON. Where the system does not tell a process its size (Linux
does), its processor is limited and its memory is not.
"""

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from state import errors
from state.errors import Broken, CallsheetError, Oversized
from tools.call import Scope
from tools.registry import Tool
from tools.terms import Settled

AT_ONCE: Final = max(1, os.cpu_count() or 1)
"""Such processes that one event loop has at a time; further calls wait in line (C52)."""
_CHUNK: Final = 65_536
_COMPLAINT: Final = 2_000
_SIZE: Final = Path("/proc/self/statm")
_queues: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]] = WeakKeyDictionary()
_log = logging.getLogger(__name__)
_START: Final = "from tools.apart import serve; serve()"


async def apart(tool: Tool, args: BaseModel, scope: Scope, terms: Settled) -> dict[str, Any]:
    """Return what the tool returns from a process of its own, which is killed with whoever waits for it.

    Raises what the tool raises of our errors, and `Oversized` for what is over its limits.
    """
    queue = _queues.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))
    order = {
        "path": sys.path,
        "module": tool.run.__module__,
        "tool": tool.name,
        "args": args.model_dump(mode="json"),
        "scope": {**asdict(scope), "facts": {**scope.facts}},
        "memory_bytes": terms.memory_bytes,
        "cpu_s": terms.cpu_s,
    }
    async with queue:
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="callsheet-tool-")
        try:
            return await _asked(tool, json.dumps(order).encode(), folder, terms)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _asked(tool: Tool, order: bytes, folder: str, terms: Settled) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _START,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=folder,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "LC_ALL": "C.UTF-8", "HOME": folder, "TMPDIR": folder},
        start_new_session=True,
    )
    complaint = asyncio.create_task(_tail(process.stderr))
    try:
        heard = await _exchanged(process, order, terms)
        return _answer(tool, heard, await process.wait(), terms)
    except Broken:
        _log.error("the process of %s: %s", tool.name, (await complaint).decode(errors="replace"))
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(asyncio.gather(process.wait(), complaint))


async def _exchanged(process: Process, order: bytes, terms: Settled) -> bytes:
    assert process.stdin  # noqa: S101 -- it was asked for
    assert process.stdout  # noqa: S101
    with suppress(ConnectionError):
        process.stdin.write(order)
        await process.stdin.drain()
    process.stdin.close()
    heard = bytearray()
    while piece := await process.stdout.read(_CHUNK):
        heard += piece
        # An error in words, or the frame around a result, may come on top.
        if len(heard) > terms.output_bytes + _CHUNK:
            raise Oversized(f"a process gave over {terms.output_bytes} bytes", remedy="Ask for less at once")
    return bytes(heard)


async def _tail(stream: asyncio.StreamReader | None) -> bytes:
    assert stream  # noqa: S101 -- it was asked for
    last = b""
    while piece := await stream.read(_CHUNK):
        last = (last + piece)[-_COMPLAINT:]
    return last


def _answer(tool: Tool, heard: bytes, code: int, terms: Settled) -> dict[str, Any]:
    if not heard:
        if code == -signal.SIGXCPU:
            raise Oversized(
                f"{tool.name} took over {terms.cpu_s:g} s of processor", remedy="Ask for less at once"
            )
        raise Broken(f"the process of {tool.name} ended with {code} and no answer", remedy="look at the tool")
    told: Mapping[str, Any] = json.loads(heard)
    if "made" in told:
        return dict(told["made"])
    raise getattr(errors, told["error"])(told["message"], remedy=told["remedy"])


def serve() -> None:
    """Carry out the order on the standard input; runs in the process of the tool."""
    # What the tool prints is none of the answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    order = json.load(sys.stdin)
    item = getattr(import_module(order["module"]), order["tool"])
    _limit(order["memory_bytes"], order["cpu_s"])
    told: dict[str, Any]
    try:
        told = {"made": item.run(item.schema.model_validate(order["args"]), Scope(**order["scope"]))}
    except CallsheetError as error:
        told = {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}
    except MemoryError:
        spent = f"{item.name} took over {order['memory_bytes']} bytes"
        told = {"error": "Oversized", "message": spent, "remedy": "Ask for less at once"}
    with answers:
        json.dump(told, answers, allow_nan=False)


def _limit(memory_bytes: int, cpu_s: float) -> None:
    # Where the system has no such limits, it has no such module.
    import resource  # noqa: PLC0415

    spent = resource.getrusage(resource.RUSAGE_SELF)
    limits = {
        resource.RLIMIT_CPU: int(spent.ru_utime + spent.ru_stime + cpu_s) + 1,
        resource.RLIMIT_FSIZE: memory_bytes,
        resource.RLIMIT_CORE: 0,
    }
    if _SIZE.exists():
        used = int(_SIZE.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        limits[resource.RLIMIT_AS] = used + memory_bytes
    for kind, most in limits.items():
        # At the first limit of the processor it is told, at the second it is killed: it should be told.
        resource.setrlimit(kind, (most, most + (kind == resource.RLIMIT_CPU)))
