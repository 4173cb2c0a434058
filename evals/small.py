"""`python -m evals.small MODEL.gguf`: the tasks for small models, with both profiles, on llama.cpp.

The model's file is served by `llama-server`, or by the package xllamacpp where that program is missing. Both
profiles get the same tasks, one at a time, and their results are written to `results/` at the end. Answers
are cached by the address of their server: a run that broke off goes on where it was when it is run again.
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from evals import __main__ as evaluation
from evals.running import environment

TASKS: Final[dict[str, tuple[str, ...]]] = {
    "page_builder": ("colour-04", "size-05", "text-02", "text-05", "offline-01", "hostile-01"),
    "fact_narration": (
        "choice-name-01",
        "choice-without-11",
        "choice-without-09",
        "choice-drop-1",
        "choice-about-a3",
        "material-11",
        "language-01",
    ),
    "ad_creation": ("brief-en-bakery", "brief-en-gym"),
    "scene_edit": ("all-01",),
    "campaign_search": ("count-01", "most-01"),
}
"""Ids of the tasks by workflow: edits of a page, choices in words, facts, ads, a plan, questions."""
CONTEXT: Final = 16_384
"""Tokens of the model's window; a brief, a page or a chapter fits."""
PORT: Final = 8971
"""Port of the model's server: a fixed one, since cached answers belong to an address."""
_START_S: Final = 300.0
_ANSWER_S: Final = "300"
"""Seconds until a piece of an answer; nobody waits longer."""
_SERVE: Final = """
import sys, time, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.model_alias, p.port, p.n_ctx = sys.argv[1], {sys.argv[2]}, int(sys.argv[3]), int(sys.argv[4])
p.hostnames, p.n_parallel, p.use_jinja = ["127.0.0.1"], 1, True
server = xllamacpp.Server(p)
while True: time.sleep(60)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both profiles; 1 if a task failed, 2 if the server does not start."""
    parser = argparse.ArgumentParser(prog="python -m evals.small", description=__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--profile", action="append", choices=["lean", "full"], help="both when left out")
    parser.add_argument("--only", action="append", choices=[*TASKS], help="a workflow; may be repeated")
    parser.add_argument("--repeat", default="1", help="times that each task runs")
    parser.add_argument("--port", type=int, default=PORT, help="port of the model's server")
    options = parser.parse_args(arguments)
    with _serving(options.model.absolute(), str(options.port)) as url:
        settings = {
            "COMPATIBLE_BASE_URL": url,
            "COMPATIBLE_TIMEOUT_S": _ANSWER_S,
            "COMPATIBLE_MAX_RETRIES": "0",
            "COMPATIBLE_CONCURRENCY": "1",
        }
        with environment({**settings, "COMPATIBLE_MODEL": options.model.stem}):
            return max(_run(options, profile) for profile in options.profile or ("lean", "full"))


def _run(options: argparse.Namespace, profile: str) -> int:
    chosen = options.only or [*TASKS]
    tasks = [f"{name}.{one}" for name in chosen for one in TASKS[name]]
    given = [part for one in tasks for part in ("--task", one)]
    model = f"compatible/{options.model.stem}"
    common = ["--model", model, "--profile", profile, "--repeat", options.repeat, "--at-once", "1", "--write"]
    return evaluation.main([*common, *given])


@contextmanager
def _serving(model: Path, port: str) -> Iterator[str]:
    """Serve the model's file on a port of loopback; yield the address of its Chat Completions API."""
    program = shutil.which("llama-server")
    command = [program, "-m", str(model), "--alias", model.stem, "--jinja", "--port", port] if program else []
    command += ["--ctx-size", str(CONTEXT), "--parallel", "1"] if program else []
    command = command or [sys.executable, "-c", _SERVE, str(model), model.stem, port, str(CONTEXT)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:  # noqa: S603
        try:
            _wait(server, f"http://127.0.0.1:{port}/health")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def _wait(server: "subprocess.Popen[bytes]", url: str) -> None:
    """Wait until the model is loaded; raise `SystemExit` if its server ends, or after five minutes."""
    deadline_s = time.monotonic() + _START_S
    while time.monotonic() < deadline_s and server.poll() is None:
        try:
            if httpx.get(url, timeout=5.0).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    sys.exit("The model's server did not start: install llama-server, or the package xllamacpp.")


if __name__ == "__main__":
    sys.exit(main())
