"""Functions that `killing.WarmParent` forks: a server, a worker, or the `callsheet` command."""

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import uvicorn

from callsheet.server.app import create_app
from callsheet.server.cli import main as cli
from callsheet.server.processes import worker as worker_process
from callsheet.server.settings.settings import read_settings


def serve(
    *,
    port: int,
    redis_url: str,
    lease_s: float,
    config: str | None = None,
    carry: bool = True,
    worker_port: int | None = None,
    kept_versions: str = "0",
) -> None:
    """Serve on a port; with port 0, work without a server."""
    chosen: dict[str, Any] = {"redis_url": redis_url, "lease_s": lease_s, "config": config}
    chosen["log_level"] = "error"
    if port:
        settings = read_settings(port=port, carry_runs=carry, kept_versions=kept_versions, **chosen)
        uvicorn.run(create_app(settings), host="127.0.0.1", port=port, log_level="error")
    else:
        worker_process.run_worker(read_settings(worker_port=worker_port, **chosen))


def command(*, words: list[str], folder: str, environ: dict[str, str]) -> NoReturn:
    """Run `callsheet` with these words in a folder; its output goes to the files `out` and `err`.

    Its exit code is in the file `code` at the end.
    """
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    code = 1
    try:
        cli.main(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # In one step, so that a reader of the file finds all of it.
        Path("code~").write_text(str(code))
        Path("code~").rename("code")
    sys.exit(code)
