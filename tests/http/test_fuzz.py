"""Fuzzing: every reply conforms to the OpenAPI document (X7)."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.storage import Storage
from tests.doubles.auth_cases import create_key
from tests.doubles.documented import OURS
from tests.doubles.needs import skip_or_fail
from tests.doubles.served import GENERATE
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import running_server

pytestmark = pytest.mark.slow

COUNTER_RUN = {"assistant_id": "counter", "input": {"x": 1}}
ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / ".venv-fuzz" / "bin" / "schemathesis"
QUICK_OPTIONS = ("--phases", "fuzzing", "--max-examples", "1", "--seed", "1")
LONG_OPTIONS = ("--phases", "coverage,fuzzing,stateful", "--max-examples", "50", "--max-time", "600")


def create_examples(url: str, headers: dict[str, str]) -> dict[str, list[str]]:
    """Create one of everything; return the ids by the name of the parameter."""
    with httpx.Client(base_url=url, headers=headers, timeout=30) as http:

        def post(path: str, **body: Any) -> dict[str, Any]:
            reply = http.post(path, json=body)
            assert reply.status_code == 200, reply.text
            fields: dict[str, Any] = reply.json()
            return fields

        thread_id, interrupted_id = (post("/threads")["thread_id"] for _ in range(2))
        post(f"/threads/{thread_id}/runs/wait", **COUNTER_RUN)
        post(f"/threads/{interrupted_id}/runs/wait", assistant_id="agent", input={"messages": []})
        states = http.post(f"/threads/{thread_id}/history", json={}).json()
        return {
            "adId": ["example"],
            "ad_id": ["example"],
            "assistant_id": ["counter", post("/assistants", graph_id="counter")["assistant_id"]],
            "checkpoint_id": [state["checkpoint_id"] for state in states],
            "cron_id": [post("/runs/crons", assistant_id="counter", schedule="0 0 1 1 *")["cron_id"]],
            "graph_id": ["counter"],
            "provider": ["offline"],
            "run_id alone": [post("/runs", **COUNTER_RUN, on_completion="keep")["run_id"]],
            "run_id": [run["run_id"] for run in http.get(f"/threads/{thread_id}/runs").json()],
            "schedule": ["0 0 1 1 *"],
            "stream": ["voices", "music", "sfx"],
            "thread_id": [thread_id, interrupted_id],
            "version_id": sorted(
                post("/api/ai/generate", **{**GENERATE, "adId": "example"})["drafts"].values()
            ),
        }


def run_fuzzer(url: str, headers: dict[str, str], *options: str, folder: Path) -> None:
    """Fuzz the server; fail if a reply is wrong or an operation was left out."""
    environ = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": str(ROOT / "tests" / "http" / "fuzz_hooks.py"),
        "CALLSHEET_FUZZ_EXISTING": json.dumps(create_examples(url, headers)),
    }
    settings = ROOT / "tests" / "http" / "fuzz.toml"
    command = [str(PROGRAM), "--config-file", str(settings), "run", f"{url}/openapi.json", "--no-color"]
    header_options = [part for name, value in headers.items() for part in ("--header", f"{name}:{value}")]
    process = subprocess.run(
        [*command, *header_options, *options],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    sys.stdout.write(process.stdout)
    documented = httpx.get(f"{url}/openapi.json", headers=headers, timeout=30).json()["paths"]
    assert f"Tested: {sum(map(len, documented.values()))}\n" in process.stdout


@pytest.mark.timeout(900)
async def test_every_reply_to_a_fuzzed_request_conforms_to_the_openapi_document(
    valkey_url: str, storage: Storage, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """X7: no internal error, no undocumented status, replies as documented, nobody let in without a key."""
    if not PROGRAM.exists():
        skip_or_fail("the fuzzer is not installed; run: make fuzzer")
    options = LONG_OPTIONS if request.config.getoption("--long") else QUICK_OPTIONS
    headers = {"X-Api-Key": await create_key(storage, "fuzzer")}
    graphs = {**GRAPHS, **OURS.graphs}
    with running_server(valkey_url, graphs, auth=("keys",)) as url:
        await asyncio.to_thread(run_fuzzer, url, headers, *options, folder=tmp_path)
