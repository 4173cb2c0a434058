"""Redis servers of a test's own, on a loopback port: real ones, and one with scripted replies."""

import asyncio
import itertools
import os
import random
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from redis import Redis, RedisCluster
from redis.exceptions import ResponseError

from tests.doubles.tcp_server import tcp_server
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


def hold_port() -> socket.socket:
    """A socket with a loopback port on which a server can listen, and no other program is given it."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", free_port()))
    return held


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


@dataclass
class Cluster:
    """Three primaries, each with one replica."""

    nodes: list[RedisServer]

    @property
    def url(self) -> str:
        """URL of all nodes, for the server."""
        return f"redis+cluster://{','.join(node.address for node in self.nodes)}"

    def primary_of(self, key: str) -> RedisServer:
        """The primary that has a key."""
        with RedisCluster.from_url(self.nodes[0].url) as client:
            port = client.get_node_from_key(key).port
        return next(node for node in self.nodes if node.port == port)

    def kill(self, node: RedisServer) -> None:
        """Kill a node, and wait until its replica has taken over if it is a primary."""
        node.kill()
        self.nodes.remove(node)
        until(lambda: self._is_taken_over(node), "a replica has taken over", patience_s=20)

    def restart(self, node: RedisServer) -> None:
        """Start a killed node again, and wait until it is a replica that has all data."""
        node.start()
        self.nodes.append(node)
        until(partial(_is_replica, node), "the node is a replica", patience_s=20)

    def _is_taken_over(self, former: RedisServer) -> bool:
        with RedisCluster.from_url(self.nodes[0].url) as client:
            primaries = {node.port for node in client.get_primaries()}
        return former.port not in primaries and _is_complete(self.nodes)


@contextmanager
def six_nodes(program: Path, folder: Path) -> Iterator[Cluster]:
    """A cluster of three primaries and three replicas, on loopback ports."""
    with ExitStack() as stack:
        nodes = []
        for number in range(6):
            place = folder / f"node{number}"
            place.mkdir()
            limits = ["--cluster-node-timeout", "1500", "--repl-diskless-sync-delay", "0"]
            nodes.append(stack.enter_context(running_redis(program, place, *cluster_options(), *limits)))
        links = [stack.enter_context(Redis(port=node.port)) for node in nodes]
        _join(links)
        until(lambda: _is_complete(nodes), "a complete cluster", patience_s=20)
        until(lambda: _has_replicas(nodes[:3]), "a replica of every primary", patience_s=20)
        yield Cluster(nodes)


def _join(links: Sequence[Redis]) -> None:
    """Make the nodes one cluster; the last three are replicas of the first three."""
    known = links[0].config_get("port", "cluster-port")
    for link in links[1:]:
        link.execute_command("CLUSTER", "MEET", "127.0.0.1", known["port"], known["cluster-port"])
    for number, link in enumerate(links[:3]):
        first, last = (16384 * bound // 3 for bound in (number, number + 1))
        link.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last - 1)
    ids = [link.execute_command("CLUSTER", "MYID").decode() for link in links]
    for primary, link in zip(ids, links[3:], strict=False):
        until(partial(_replicate, link, primary), "the node knows its primary", patience_s=20)


def _replicate(link: Redis, primary: str) -> bool:
    with suppress(ResponseError):
        return bool(link.execute_command("CLUSTER", "REPLICATE", primary))
    return False


def _is_complete(nodes: Sequence[RedisServer]) -> bool:
    """Return True if every node knows a living primary for every slot."""
    return all(_info(node, "cluster", "info")["cluster_state"] == "ok" for node in nodes)


def _has_replicas(primaries: Sequence[RedisServer]) -> bool:
    return all(
        _info(node, "info", "replication").get("slave0", {}).get("state") == "online" for node in primaries
    )


def _is_replica(node: RedisServer) -> bool:
    return bool(_info(node, "info", "replication").get("master_link_status") == "up")


def _info(node: RedisServer, command: str, section: str) -> Any:
    with Redis(port=node.port) as link:
        return getattr(link, command)(section)


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

    async with tcp_server(serve) as port:
        yield f"redis://127.0.0.1:{port}"


def bulk_reply(text: str) -> bytes:
    """`text` as Redis sends it."""
    data = text.encode()
    return b"$%d\r\n%s\r\n" % (len(data), data)
