"""Real kills: a server in a process of its own, and a proxy to Redis that kills it at a chosen command.

The proxy stands between the server and Valkey and counts what the server sends. At the chosen message it
either kills before passing it on (the effect never happens) or passes it on, waits for the reply, or for the
next message, and kills instead of delivering it (the effect happened, and the server never knew).
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx
from websockets.exceptions import WebSocketException

from tests.doubles.redis_server import free_port
from tests.doubles.tcp_server import Connections
from tests.doubles.waiting import eventually

When = Literal["before", "after"]
_SERVE = "tests.doubles.warm_work:serve"


@dataclass
class Kill:
    """A process to kill, and the message at which to kill it."""

    at: int
    when: When
    pid: int = 0
    message_count: int = 0
    done: bool = False
    armed: bool = False


@dataclass
class KillingProxy:
    """Passes Redis's protocol on, byte for byte, over a unix socket."""

    path: str
    target: str
    kill: Kill = field(default_factory=lambda: Kill(at=-1, when="before"))

    async def __aenter__(self):
        self._connections = Connections(self._serve)
        self._server = await asyncio.start_unix_server(self._connections.handle, self.path)
        return self

    async def __aexit__(self, *error):
        self._server.close()
        await self._connections.close()

    async def _serve(self, reader, writer):
        up_reader, up_writer = await self._connections.connect(self.target)
        reply_due = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._up(reader, up_writer, reply_due))
                group.create_task(self._down(up_reader, writer, reply_due))
        except* OSError:
            pass
        finally:
            for one in (writer, up_writer):
                one.close()

    async def _up(self, reader, up_writer, reply_due):
        while data := await reader.read(1 << 20):
            if self._is_due() and (self.kill.when == "before" or self.kill.message_count > self.kill.at):
                self._kill()
                return
            if self.kill.armed and self.kill.message_count == self.kill.at:
                reply_due.set()
            up_writer.write(data)
            await up_writer.drain()
        up_writer.close()

    async def _down(self, up_reader, writer, reply_due):
        while data := await up_reader.read(1 << 20):
            if reply_due.is_set():
                self._kill()
                return
            writer.write(data)
            await writer.drain()
        writer.close()

    def _is_due(self):
        if self.kill.armed and not self.kill.done:
            self.kill.message_count += 1
        # A message without a reply, such as a blocking read, is followed by the next message.
        return self.kill.armed and 0 < self.kill.at <= self.kill.message_count and not self.kill.done

    def _kill(self):
        if not self.kill.done:
            self.kill.done = True
            os.kill(self.kill.pid, signal.SIGKILL)


class WarmParent:
    """A parent that has everything imported and forks a process in a few milliseconds."""

    def __init__(self, **env: str) -> None:
        """`env` is added to the environment."""
        self._env = env

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.doubles.warm"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")} | self._env,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._in, self._out = self._process.stdin, self._process.stdout
        return self

    def __exit__(self, *error):
        with contextlib.suppress(BrokenPipeError):
            self._in.close()
        self._process.wait(60)
        self._out.close()

    def start(self, redis_url: str, lease_s: float, **chosen: object) -> tuple[int, str]:
        """Fork a server; its process id and its URL. `config` and `carry` are as the settings call them."""
        port = free_port()
        pid = self.fork(_SERVE, port=port, redis_url=redis_url, lease_s=lease_s, **chosen)
        return pid, f"http://127.0.0.1:{port}"

    def work(self, redis_url: str, lease_s: float, config: str, **chosen: object) -> int:
        """Fork a worker without a server; its process id. `worker_port` is as the settings call it."""
        return self.fork(_SERVE, port=0, redis_url=redis_url, lease_s=lease_s, config=config, **chosen)

    def fork(self, function: str, **arguments: object) -> int:
        """Call `module:function` in a new process; its id."""
        return int(self._request(function, arguments, waits=False))

    def call(self, function: str, **arguments: object) -> tuple[Any, int]:
        """Call `module:function` in a new process; its result, and the process's exit code."""
        value, code = self._request(function, arguments, waits=True)
        return value, code

    def _request(self, function: str, arguments: object, *, waits: bool) -> Any:
        self._in.write(json.dumps({"function": function, "arguments": arguments, "waits": waits}) + "\n")
        self._in.flush()
        answer = self._out.readline()
        assert answer, f"the warmed parent ended with {self._process.wait(60)}; why is on standard error"
        return json.loads(answer)


class KillableServer:
    """A server that is killed at one message to Redis, and others after it on the same storage."""

    lease_s = 1.0
    config: str | None = None

    def __init__(self, warm: WarmParent, proxy: KillingProxy, url: str) -> None:
        self._warm, self._proxy, self.url = warm, proxy, url

    async def run_until_killed(self, kill: Kill, use: Callable[[str], Awaitable[object]]) -> bool:
        """Use a server, by its URL, that is killed at `kill`; return whether it was."""
        self._proxy.kill = kill
        kill.pid, base = self._warm.start(f"unix://{self._proxy.path}?db=0", self.lease_s, config=self.config)
        await self._wait_until_ready(base)
        kill.armed = True
        try:
            await use(base)
        except (httpx.TransportError, WebSocketException, OSError):
            if not kill.done:
                raise
        kill.armed = False
        if not kill.done:
            os.kill(kill.pid, signal.SIGKILL)
        return kill.done

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """The URL of a server that is started now, and killed at the end."""
        pid, base = self._warm.start(self.url, self.lease_s, config=self.config)
        try:
            await self._wait_until_ready(base)
            yield base
        finally:
            os.kill(pid, signal.SIGKILL)

    async def count_messages(self, use: Callable[[str, int], Awaitable[object]]) -> int:
        """Count the messages that an undisturbed use sends to Redis, once it knows the scripts."""
        counts = []
        for turn in range(3):
            never = Kill(at=-1, when="before")

            async def use_turn(base: str, turn: int = turn) -> None:
                await use(base, turn)

            assert not await self.run_until_killed(never, use_turn)
            counts.append(never.message_count)
        return min(counts[1:])

    async def _wait_until_ready(self, base: str) -> None:
        path = "/info" if self.config else "/api/ads"

        async def is_ready() -> bool:
            try:
                return (await client.get(path)).status_code == 200
            except httpx.TransportError:
                return False

        async with httpx.AsyncClient(base_url=base, timeout=30) as client:
            await eventually(is_ready, "the server answers", patience_s=20)


def sample_points(count: int, few: int, seed: int, *, all_points: bool) -> Sequence[int]:
    """The points of a walk from 1 to `count`: all of them, or a few by a seed."""
    every = range(1, count + 1)
    return every if all_points else sorted(random.Random(seed).sample(every, min(few, count)))


def is_answering(url: str) -> bool:
    """True if a server answers."""
    try:
        return httpx.get(f"{url}/ok", timeout=2).status_code == 200
    except httpx.TransportError:
        return False
