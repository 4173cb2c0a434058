"""Redis servers of a test's own, on a loopback port: real ones, and one with scripted replies."""

import asyncio
import itertools
import os
import random
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from redis import Redis

from tests.doubles.waiting import until

_PORTS_EACH = 2_000


def _own_ports() -> Iterator[int]:
    """Ports of this process, one of up to six of a test run; below those that the kernel gives to sockets."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 20_000 + number % 6 * _PORTS_EACH
    # Another run may be at work on this machine.
    begin = random.SystemRandom().randrange(_PORTS_EACH)
    return itertools.cycle([first + (begin + offset) % _PORTS_EACH for offset in range(_PORTS_EACH)])


_PORTS = _own_ports()


def free_port() -> int:
    """A loopback port that nobody listens on, and that no other process of the test run is given."""
    for port in itertools.islice(_PORTS, _PORTS_EACH):
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"none of {_PORTS_EACH} ports is free")


class RedisServer:
    """A real server, which can be killed and started again."""

    def __init__(self, program: Path, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"redis://{self.address}"
        self._command = [
            str(program),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            *options,
        ]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._process = subprocess.Popen(self._command, cwd=self._folder, stdout=subprocess.DEVNULL)
        until(self._answers, f"the start of {self._command}")

    def kill(self) -> None:
        """End it with SIGKILL; twice is safe."""
        if self._process:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def hang(self) -> None:
        """Stop it where it stands: connections open, nothing answered."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on after `hang`; twice is safe."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._process:
            os.kill(self._process.pid, number)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as link:
                link.sendall(b"PING\r\n")
                # Any answer will do, even a request for a password.
                return bool(link.recv(16))
        except OSError:
            return False


@contextmanager
def running_redis(program: Path, folder: Path, *options: str) -> Iterator[RedisServer]:
    """A real server for the length of the `with`."""
    server = RedisServer(program, folder, *options)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def cluster_options() -> list[str]:
    """The options that make a server a node of a cluster."""
    # The default bus port is 10,000 above the other, and may be none.
    return ["--cluster-enabled", "yes", "--cluster-port", str(free_port())]


@contextmanager
def one_node_cluster(program: Path, folder: Path) -> Iterator[RedisServer]:
    """A cluster of one node that has all slots."""
    with running_redis(program, folder, *cluster_options()) as server, Redis(port=server.port) as node:
        node.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
        until(lambda: node.cluster("info")["cluster_state"] == "ok", "a complete cluster")
        yield server


@asynccontextmanager
async def scripted_redis(answers: Mapping[bytes, bytes], otherwise: bytes = b"+OK\r\n") -> AsyncIterator[str]:
    """The URL of a server that answers each command, by its name, with bytes; empty ones are silence."""
    replies = {b"PING": b"+PONG\r\n"} | dict(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while header := await reader.readline():
                words = []
                for _ in range(int(header[1:])):
                    length = int((await reader.readline())[1:])
                    words.append((await reader.readexactly(length + 2))[:-2])
                writer.write(replies.get(words[0].upper(), otherwise))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def bulk_reply(text: str) -> bytes:
    """`text` as Redis sends it."""
    data = text.encode()
    return b"$%d\r\n%s\r\n" % (len(data), data)
