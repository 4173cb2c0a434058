"""Memory of a server that streams data: 900 streams of 4 MB, and 15,000 small ones.

Each row is a tenth of the streams, eight at a time, each read to its end. The ratio is to the first tenth;
the memory is that of the server's process, without its Redis.
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
from bench._servers import PATIENCE_S, ROOT, MeasuredServer, ReadinessProbe, free_port, running, serve_command

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
    """Streams of one graph and input."""

    streams: int
    graph: str
    graph_input: Mapping[str, int]
    mode: str


LARGE: Final = StreamKind(size(900, short=10), "large", {"events": 200, "characters": 20_000}, "custom")
SMALL: Final = StreamKind(size(15_000, short=20), "small", {"x": 1}, "updates")


def main() -> int:
    """Print a table for each kind."""
    for kind in (LARGE, SMALL):
        with serving() as server:
            _print_table(server, kind)
    return 0


def _print_table(server: MeasuredServer, kind: StreamKind) -> None:
    streams = kind.streams // _TENTHS
    print(f"{kind.graph:<8}{'streams':>10}{'memory':>12}{'ratio':>8}{'rate':>12}")
    first_mib = 0.0
    for tenth in range(1, _TENTHS + 1):
        start_s = time.perf_counter()
        asyncio.run(read_streams(server, kind, streams))
        rate, rss_mib = streams / (time.perf_counter() - start_s), own_rss_mib(server)
        first_mib = first_mib or rss_mib
        print(
            f"{tenth * streams:>18}{rss_mib:>8.0f} MiB{rss_mib / first_mib:>8.2f}{rate:>10.1f}/s", flush=True
        )


@contextmanager
def serving() -> Iterator[MeasuredServer]:
    """Start a server for both graphs with its own embedded Valkey."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        (folder / "langgraph.json").write_text(json.dumps(_CONFIG))
        environment = {
            "CALLSHEET_CONFIG": "langgraph.json",
            "CALLSHEET_DATA_DIR": str(folder / "data"),
            "CALLSHEET_LOG_LEVEL": "error",
            "REDIS_URL": "",
        }
        with running(serve_command(port), port, folder, environment) as server:
            server.ready_s(ReadinessProbe("/assistants/search", "POST"))
            yield server


def own_rss_mib(server: MeasuredServer) -> float:
    """Return the resident memory of the server's process alone."""
    return float(psutil.Process(server.process.pid).memory_info().rss) / 2**20


async def read_streams(server: MeasuredServer, kind: StreamKind, streams: int) -> None:
    """Read this number of streams to their ends."""
    body = {"assistant_id": kind.graph, "input": kind.graph_input, "stream_mode": kind.mode}
    remaining = iter(range(streams))

    async def read(http: httpx.AsyncClient) -> None:
        for _ in remaining:
            async with http.stream("POST", "/runs/stream", json=body) as reply:
                assert reply.status_code == httpx.codes.OK, reply
                async for _part in reply.aiter_raw():
                    pass

    async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S) as http:
        await asyncio.gather(*(read(http) for _ in range(AT_ONCE)))


if __name__ == "__main__":
    sys.exit(main())
