"""The wait of others while one request is meant to hold the server or fill its memory.

Each request is sent alone. While it is answered, another process asks for `/ok` every 10 ms; the row has the
longest wait, the growth of the server's memory with its children, and the status. The floor is the longest
wait of as many requests for `/info`, in the same run.
"""

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import psutil

from bench import size
from bench._attacks import AD, ATTACKS, Attack
from bench._servers import MeasuredServer, ReadinessProbe, free_port, running, serve_command
from tests.doubles.chat_double import ChatDouble, Fail, Recorded, Reply

_PAUSE_S: Final = 0.01
_TIMEOUT_S: Final = 90.0
_SETTLE_S: Final = 0.5
_SHOWN: Final = 15
_NOWHERE: Final = frozenset({"404", "405"})
_MIB: Final = 2**20
_ATTACKS: Final = ATTACKS[: size(len(ATTACKS), short=3)]


class Row(NamedTuple):
    """Figures of one request."""

    name: str
    wait_ms: float
    """Longest wait for `/ok`."""
    growth_mib: float
    seconds: float
    status: str


class _OneAnswer(ChatDouble):
    """An endpoint that answers every request alike."""

    answer: Reply = Fail(400)

    def next_reply(self, request: Recorded) -> Reply:
        """Answer with the present answer."""
        return self.refusal(request) or self.answer


def main() -> int:
    """Print the longest waits and the largest growths, and what was answered."""
    with _OneAnswer() as endpoint, _serving(endpoint) as server, _probing(server.url) as probe:
        _make_ad(server)
        quiet = [_row(server, probe, Attack("/info", "/info", bytes, "GET")) for _ in _ATTACKS]
        rows = []
        for attack in _ATTACKS:
            if attack.answer:
                endpoint.answer = attack.answer()
            rows.append(_row(server, probe, attack))
    if missed := [row.name for row in rows if row.status in _NOWHERE]:
        print(f"these met no route, so their figures mean nothing: {', '.join(missed)}")
        return 1
    floor_ms = max(row.wait_ms for row in quiet)
    _print("longest wait for /ok", sorted(rows, key=lambda row: -row.wait_ms))
    _print("largest growth of memory", sorted(rows, key=lambda row: -row.growth_mib))
    failed = [row for row in rows if not row.status.startswith(("2", "4")) and row.status != "503"]
    _print("no answer, or an error of the server", failed)
    print(f"{len(rows)} requests; floor of the wait {floor_ms:.0f} ms; load {os.getloadavg()[0]:.1f}")
    return 0


def _make_ad(server: MeasuredServer) -> None:
    with httpx.Client(base_url=server.url, timeout=_TIMEOUT_S) as http:
        http.post("/api/ai/generate", json=dict(AD)).raise_for_status()


def _print(title: str, rows: list[Row]) -> None:
    print(f"{title:<56}{'wait':>9}{'memory':>12}{'answered':>11}  status")
    for row in rows[:_SHOWN]:
        figures = f"{row.wait_ms:>6.0f} ms{row.growth_mib:>8.0f} MiB{row.seconds:>9.1f} s"
        print(f"  {row.name:<54}{figures}  {row.status}")


def _row(server: MeasuredServer, probe: Connection, attack: Attack) -> Row:
    content = attack.content()
    before = _memory_mib(server)
    headers = {"content-type": attack.media_type, **attack.headers}
    probe.send("begin")
    start_s = time.monotonic()
    try:
        with httpx.Client(base_url=server.url, timeout=_TIMEOUT_S) as http:
            status = str(
                http.request(attack.method, attack.path, content=content, headers=headers).status_code
            )
    except httpx.HTTPError as error:
        status = type(error).__name__
    seconds = time.monotonic() - start_s
    peak_mib = _memory_mib(server)
    time.sleep(_SETTLE_S)
    probe.send("end")
    return Row(attack.name, float(probe.recv()), peak_mib - before, seconds, status)


def _memory_mib(server: MeasuredServer) -> float:
    """Return the memory of the server and its children without its database."""
    total = 0
    root = psutil.Process(server.process.pid)
    for one in (root, *root.children(recursive=True)):
        try:
            if "valkey" not in one.name():
                total += one.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total / _MIB


@contextmanager
def _probing(url: str) -> Iterator[Connection]:
    """Ask for `/ok` in a process of its own, between `begin` and `end`, which sends the longest wait."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_ask, args=(url, theirs), daemon=True)
    process.start()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


def _ask(url: str, orders: Connection) -> None:
    with httpx.Client(base_url=url, timeout=_TIMEOUT_S) as http:
        while orders.recv() == "begin":
            longest_s = 0.0
            while not orders.poll(_PAUSE_S):
                start_s = time.monotonic()
                http.get("/ok").raise_for_status()
                longest_s = max(longest_s, time.monotonic() - start_s)
            orders.recv()
            orders.send(longest_s * 1_000)


@contextmanager
def _serving(endpoint: ChatDouble) -> Iterator[MeasuredServer]:
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        environment = {
            "CALLSHEET_DATA_DIR": str(folder / "data"),
            "CALLSHEET_LOG_LEVEL": "error",
            "REDIS_URL": "",
            **endpoint.environ,
        }
        with running(serve_command(port), port, folder, environment) as server:
            server.ready_s(ReadinessProbe("/assistants/search", "POST"))
            yield server


if __name__ == "__main__":
    sys.exit(main())
