"""Memory of a server whose streams carry data: 900 streams of 4 MB, and 15,000 small ones.

Each row is a tenth of the streams, eight at a time, each read to its end. The ratio is to the first tenth;
the memory is that of the server's process, its Redis apart.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import psutil

from bench import size
from bench._servers import PATIENCE_S, ROOT, ReadinessCheck, Server, free_port, running, serve_command

AT_ONCE: Final = 8
_TENTHS: Final = 10
_CONFIG: Final = {
    "dependencies": [str(ROOT)],
    "graphs": {
        "large": f"{ROOT / 'bench' / '_large.py'}:large",
        "small": f"{ROOT / 'tests' / 'doubles' / 'wire_graphs.py'}:bench",
    },
}


class StreamKind(NamedTuple):
    """Streams of one kind."""

    streams: int
    graph: str
    given: Mapping[str, int]
    mode: str


LARGE: Final = StreamKind(size(900, short=10), "large", {"events": 200, "characters": 20_000}, "custom")
SMALL: Final = StreamKind(size(15_000, short=20), "small", {"x": 1}, "updates")


def main() -> int:
    """Print a table for each kind."""
    for kind in (LARGE, SMALL):
        with serving() as server:
            _print_table(server, kind)
    return 0


def _print_table(server: Server, kind: StreamKind) -> None:
    each = kind.streams // _TENTHS
    print(f"{kind.graph:<8}{'streams':>10}{'memory':>12}{'ratio':>8}{'rate':>12}")
    first_mib = 0.0
    for tenth in range(1, _TENTHS + 1):
        began = time.perf_counter()
        asyncio.run(read_streams(server, kind, each))
        rate, rss_mib = each / (time.perf_counter() - began), own_rss_mib(server)
        first_mib = first_mib or rss_mib
        print(f"{tenth * each:>18}{rss_mib:>8.0f} MiB{rss_mib / first_mib:>8.2f}{rate:>10.1f}/s", flush=True)


@contextmanager
def serving() -> Iterator[Server]:
    """A server of both graphs on an embedded Redis of its own."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as name:
        folder, port = Path(name), free_port()
        (folder / "langgraph.json").write_text(json.dumps(_CONFIG))
        chosen = {
            "CALLSHEET_CONFIG": "langgraph.json",
            "CALLSHEET_DATA_DIR": str(folder / "data"),
            "CALLSHEET_LOG_LEVEL": "error",
            "REDIS_URL": "",
        }
        with running(serve_command(port), port, folder, chosen) as server:
            server.answers_s(ReadinessCheck("/assistants/search", "POST"))
            yield server


def own_rss_mib(server: Server) -> float:
    """Return the resident memory of the server's process alone."""
    return float(psutil.Process(server.process.pid).memory_info().rss) / 2**20


async def read_streams(server: Server, kind: StreamKind, streams: int) -> None:
    """Read that many streams to their ends."""
    body = {"assistant_id": kind.graph, "input": kind.given, "stream_mode": kind.mode}
    left = iter(range(streams))

    async def read(http: httpx.AsyncClient) -> None:
        for _ in left:
            async with http.stream("POST", "/runs/stream", json=body) as reply:
                assert reply.status_code == httpx.codes.OK, reply
                async for _part in reply.aiter_raw():
                    pass

    async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S) as http:
        await asyncio.gather(*(read(http) for _ in range(AT_ONCE)))


if __name__ == "__main__":
    sys.exit(main())
