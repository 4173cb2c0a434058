"""Sandbox: work in a process of its own with limits that the system enforces: tools and PDFs.

The process is a fresh interpreter with an empty environment and working directory. It has no keys and no
connection to storage, and ends with the call. It receives a module's name, JSON and bytes, writes lines with
its progress, and last its answer as JSON. Memory is limited on Linux only, where a process can read its size.
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
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from pydantic import BaseModel

from callsheet.state import errors
from callsheet.state.errors import Broken, CallsheetError, Oversized
from callsheet.tools.call import Scope
from callsheet.tools.policy import EffectivePolicy
from callsheet.tools.registry import Tool

MAX_PROCESSES: Final = max(1, os.cpu_count() or 1)
"""Sandbox processes per event loop; further calls wait."""
_CHUNK: Final = 65_536
_PROGRESS: Final = b"progress "
"""Prefix of a progress line; the answer starts with a brace."""
_STDERR_BYTES: Final = 2_000
_CRASHES: Final = (
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSEGV,
    signal.SIGTRAP,
)
"""Ends of native code that gets no more memory, or meets data that it cannot read."""
_SIZE: Final = Path("/proc/self/statm")
_queues: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]] = WeakKeyDictionary()
_turns: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[str, asyncio.Lock]]] = (
    WeakKeyDictionary()
)
"""Locks of owners whose tasks take turns."""
_log = logging.getLogger(__name__)
_START: Final = "from callsheet.tools.guard.sandbox import serve; serve()"


OnProgress = Callable[[int, int], None]
"""Receives (done, total)."""


class SandboxLimits(Protocol):
    """Limits of a sandbox process."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of address space beyond what the process starts with."""
        ...

    @property
    def cpu_s(self) -> float:
        """Processor seconds."""
        ...

    @property
    def output_bytes(self) -> int:
        """Bytes of the answer as JSON."""
        ...


@dataclass(frozen=True)
class TaskLimits:
    """Limits of a kind of task: a small file may unpack to more than a machine has, or take minutes."""

    memory_bytes: int
    cpu_s: float
    output_bytes: int


@dataclass(frozen=True)
class SandboxTask:
    """Work for the sandbox: a tool, or a function `(data, report, **arguments)`."""

    name: str
    """Name in messages."""
    module: str
    function: str
    """Name in the module."""
    arguments: Mapping[str, Any]
    """JSON."""
    data: bytes = field(default=b"", repr=False)
    owner: str = ""
    """Owner whose tasks run one at a time, so that others get their turn; empty for no such limit."""
    files: tuple[int, ...] = ()
    """Descriptors of open files that the process may use; large bytes pass through them."""


async def run_sandboxed(tool: Tool, args: BaseModel, scope: Scope, policy: EffectivePolicy) -> dict[str, Any]:
    """Return the tool's result from the sandbox; raises as `run_task`."""
    arguments = {"args": args.model_dump(mode="json"), "scope": {**asdict(scope), "facts": {**scope.facts}}}
    return await run_task(SandboxTask(tool.name, tool.run.__module__, tool.name, arguments), policy)


async def run_task(
    task: SandboxTask, limits: SandboxLimits, report: OnProgress = lambda _done, _of: None
) -> dict[str, Any]:
    """Return the task's result; its process is killed when the caller is cancelled.

    Raises the task's `CallsheetError`, and `Oversized` beyond the limits.
    """
    queue = _queues.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_PROCESSES))
    order = {
        "path": sys.path,
        "module": task.module,
        "work": task.function,
        "name": task.name,
        "given": task.arguments,
        "memory_bytes": limits.memory_bytes,
        "cpu_s": limits.cpu_s,
    }
    async with owner_turn(task.owner), queue:
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="callsheet-tool-")
        try:
            message = b"%b\n%b" % (json.dumps(order).encode(), task.data)
            return await _communicate(task, message, folder, limits, report)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def owner_turn(owner: str) -> AbstractAsyncContextManager[object]:
    """Return the turn of an owner's task, which waits for those before it; an empty one waits for nobody."""
    if not owner:
        return nullcontext()
    locks = _turns.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    return locks.setdefault(owner, asyncio.Lock())


async def _communicate(
    task: SandboxTask, order: bytes, folder: str, limits: SandboxLimits, report: OnProgress
) -> dict[str, Any]:
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
        pass_fds=task.files,
    )
    stderr = asyncio.create_task(_tail(process.stderr))
    try:
        output = await _exchange(process, order, limits, report)
        return _read_answer(task, output, await process.wait(), limits)
    except Broken:
        _log.error("the process of %s: %s", task.name, (await stderr).decode(errors="replace"))
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(asyncio.gather(process.wait(), stderr))


async def _exchange(process: Process, order: bytes, limits: SandboxLimits, report: OnProgress) -> bytes:
    """Return the last line of the process; earlier lines report progress."""
    assert process.stdin  # noqa: S101 -- it was asked for
    assert process.stdout  # noqa: S101
    with suppress(ConnectionError):
        process.stdin.write(order)
        await process.stdin.drain()
    process.stdin.close()
    output = bytearray()
    while piece := await process.stdout.read(_CHUNK):
        output += piece
        while output.startswith(_PROGRESS) and (end := output.find(b"\n")) >= 0:
            report(*json.loads(output[len(_PROGRESS) : end]))
            del output[: end + 1]
        # An error message, or the frame of a result, may come on top.
        if len(output) > limits.output_bytes + _CHUNK:
            raise Oversized(f"a process gave over {limits.output_bytes} bytes", remedy="Ask for less at once")
    return bytes(output)


async def _tail(stream: asyncio.StreamReader | None) -> bytes:
    assert stream  # noqa: S101 -- it was asked for
    last = b""
    while piece := await stream.read(_CHUNK):
        last = (last + piece)[-_STDERR_BYTES:]
    return last


def _read_answer(task: SandboxTask, output: bytes, code: int, limits: SandboxLimits) -> dict[str, Any]:
    if not output:
        if code in {-signal.SIGPROF, -signal.SIGXCPU}:
            raise Oversized(
                f"{task.name} took over {limits.cpu_s:g} s of processor", remedy="Ask for less at once"
            )
        if -code in _CRASHES:
            _log.warning("the process of %s ended with %s", task.name, signal.Signals(-code).name)
            raise Oversized(
                f"{task.name} took over {limits.memory_bytes} bytes, or its data are malformed",
                remedy="Ask for less at once",
            )
        raise Broken(f"the process of {task.name} ended with {code} and no answer", remedy="read the log")
    answer: Mapping[str, Any] = json.loads(output)
    if "made" in answer:
        return dict(answer["made"])
    raise getattr(errors, answer["error"])(answer["message"], remedy=answer["remedy"])


def serve() -> None:
    """Execute the task on standard input; runs in the sandbox process."""
    # Prints of the work must not mix with the answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    order = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read()
    item = getattr(import_module(order["module"]), order["work"])
    _limit(order["memory_bytes"], order["cpu_s"])
    with answers:
        json.dump(_execute(item, order, data, answers), answers, allow_nan=False)


def _execute(item: Any, order: Mapping[str, Any], data: bytes, answers: IO[str]) -> dict[str, Any]:
    """Return the answer: the result, or our error."""

    def report(done: int, of: int) -> None:
        answers.write(f"{_PROGRESS.decode()}{json.dumps([done, of])}\n")
        answers.flush()

    arguments = order["given"]
    try:
        if isinstance(item, Tool):
            run: Any = item.run
            return {"made": run(item.schema.model_validate(arguments["args"]), Scope(**arguments["scope"]))}
        return {"made": item(data, report, **arguments)}
    except CallsheetError as error:
        return {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}
    except MemoryError:
        spent = f"{order['name']} took over {order['memory_bytes']} bytes"
        return {"error": "Oversized", "message": spent, "remedy": "Ask for less at once"}


def _limit(memory_bytes: int, cpu_s: float) -> None:
    # The module does not exist on systems without such limits.
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
        # The soft limit of the processor signals, the hard limit kills: leave a second between them.
        resource.setrlimit(kind, (most, most + (kind == resource.RLIMIT_CPU)))
    # The limit counts whole seconds; the timer is exact, and the limit covers work that ignores it.
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
