"""Time until the server answers, and its idle memory, compared with `langgraph dev` on the same graph.

Both are started in turn, one alone at a time, on data and bytecode that are there already (the start before
the first round is not counted). *ready for work* is the first answer that needs the workflows: the list
of ads here, the search of assistants there. Our start includes that of its Valkey, and so does our weight;
theirs runs with its standard reloader and our checkpointer, whose Valkey is not counted as theirs.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from bench import size
from bench._servers import (
    ROOT,
    MeasuredServer,
    ReadinessProbe,
    free_port,
    rss_of_folder_mib,
    running,
    serve_command,
)

ROUNDS: Final = size(5, short=1)
_WORK: Final[Mapping[str, ReadinessProbe]] = {
    "callsheet": ReadinessProbe("/api/ads"),
    "langgraph": ReadinessProbe("/assistants/search", "POST"),
}
_QUIET: Final = {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGSMITH_TRACING": "false"}
_CONFIG: Final = {
    "dependencies": [str(ROOT)],
    "graphs": {"ad_creation": "callsheet.graphs.ad_creation:graph"},
    "checkpointer": {"path": "callsheet.storage.checkpoints.saver"},
}


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as folder:
        starts = {name: _starter(name, Path(folder)) for name in _WORK}
        for name, start in starts.items():
            _measure(name, start)
        rounds = [{name: _measure(name, start) for name, start in starts.items()} for _ in range(ROUNDS)]
    print(f"{'':<24}{'callsheet':>14}{'langgraph dev':>16}{'ratio':>8}   worst … best round")
    for row, unit in (("ready for work", "s"), ("resident, idle", "MiB")):
        _print(
            row, unit, [one["callsheet"][row] for one in rounds], [one["langgraph"][row] for one in rounds]
        )
    print(f"{ROUNDS} rounds, in turn; medians; a ratio below 1 is a round in which we lost")
    return 0


def _print(row: str, unit: str, ours: Sequence[float], theirs: Sequence[float]) -> None:
    ratios = sorted(other / one for one, other in zip(ours, theirs, strict=True))
    middle = statistics.median(ratios)
    columns = f"{statistics.median(ours):>9.2f} {unit:<4}{statistics.median(theirs):>11.2f} {unit:<4}"
    print(f"{row:<24}{columns}{middle:>7.2f}x   {ratios[0]:.2f} … {ratios[-1]:.2f}")


Start = Callable[[], tuple[AbstractContextManager[MeasuredServer], Path]]
"""Returns the context manager of a server, and the folder of its Valkey's data."""


def _starter(name: str, folder: Path) -> Start:
    data = folder / name
    data.mkdir()
    if name != "callsheet":
        # Our server would serve the graphs of this file, but must serve its own workflows.
        (data / "langgraph.json").write_text(json.dumps(_CONFIG))

    def start() -> tuple[AbstractContextManager[MeasuredServer], Path]:
        port = free_port()
        dev = [str(Path(sys.executable).parent / "langgraph"), "dev", "--no-browser", "--port", str(port)]
        command = serve_command(port) if name == "callsheet" else dev
        store = data / "store"
        environment = _QUIET | {"CALLSHEET_DATA_DIR": str(store), "REDIS_URL": ""}
        return running(command, port, data, environment), store

    return start


def _measure(name: str, start: Start) -> dict[str, float]:
    entering, store = start()
    with entering as server:
        work_s = server.ready_s(_WORK[name])
        valkey_mib = rss_of_folder_mib(store.resolve()) if name == "callsheet" else 0.0
        assert valkey_mib or name != "callsheet", "no process of our Valkey"
        return {
            "ready for work": work_s,
            "resident, idle": server.rss_mib() + valkey_mib,
        }


if __name__ == "__main__":
    sys.exit(main())
