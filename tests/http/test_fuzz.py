"""The OpenAPI description and the server agree on every request a fuzzer thinks of (X7)."""

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
from tests.doubles.needs import skip_or_fail
from tests.doubles.served import GENERATE, OURS
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import running_server

pytestmark = pytest.mark.slow

ASKED = {"assistant_id": "counter", "input": {"x": 1}}
ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / ".venv-fuzz" / "bin" / "schemathesis"
SHORT = ("--phases", "fuzzing", "--max-examples", "1", "--seed", "1")
LONG = ("--phases", "coverage,fuzzing,stateful", "--max-examples", "50", "--max-time", "600")


def known(url: str, headers: dict[str, str]) -> dict[str, list[str]]:
    """Ids of one of everything."""
    with httpx.Client(base_url=url, headers=headers, timeout=30) as http:

        def made(path: str, **body: Any) -> dict[str, Any]:
            reply = http.post(path, json=body)
            assert reply.status_code == 200, reply.text
            found: dict[str, Any] = reply.json()
            return found

        thread, asking = (made("/threads")["thread_id"] for _ in range(2))
        made(f"/threads/{thread}/runs/wait", **ASKED)
        made(f"/threads/{asking}/runs/wait", assistant_id="agent", input={"messages": []})
        states = http.post(f"/threads/{thread}/history", json={}).json()
        return {
            "adId": ["known"],
            "ad_id": ["known"],
            "assistant_id": ["counter", made("/assistants", graph_id="counter")["assistant_id"]],
            "checkpoint_id": [state["checkpoint_id"] for state in states],
            "cron_id": [made("/runs/crons", assistant_id="counter", schedule="0 0 1 1 *")["cron_id"]],
            "graph_id": ["counter"],
            "provider": ["offline"],
            "run_id alone": [made("/runs", **ASKED, on_completion="keep")["run_id"]],
            "run_id": [run["run_id"] for run in http.get(f"/threads/{thread}/runs").json()],
            "schedule": ["0 0 1 1 *"],
            "stream": ["voices", "music", "sfx"],
            "thread_id": [thread, asking],
            "version_id": sorted(
                made("/api/ai/generate", **{**GENERATE, "adId": "known"})["drafts"].values()
            ),
        }


def fuzzed(url: str, headers: dict[str, str], *chosen: str, place: Path) -> None:
    """Let the fuzzer at the server; fails where it finds anything wrong, or leaves an operation out."""
    environ = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": str(ROOT / "tests" / "http" / "fuzz_hooks.py"),
        "CALLSHEET_FUZZ_KNOWN": json.dumps(known(url, headers)),
    }
    settings = ROOT / "tests" / "http" / "fuzz.toml"
    command = [str(PROGRAM), "--config-file", str(settings), "run", f"{url}/openapi.json", "--no-color"]
    said = [part for name, value in headers.items() for part in ("--header", f"{name}:{value}")]
    done = subprocess.run(
        [*command, *said, *chosen], env=environ, cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sys.stdout.write(done.stdout)
    described = httpx.get(f"{url}/openapi.json", headers=headers, timeout=30).json()["paths"]
    assert f"Tested: {sum(map(len, described.values()))}\n" in done.stdout


@pytest.mark.timeout(900)
async def test_every_reply_to_whatever_is_sent_is_as_the_description_says(
    valkey_url: str, storage: Storage, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """X7: no internal error, no undocumented status, replies as documented, nobody let in without a key."""
    if not PROGRAM.exists():
        skip_or_fail("the fuzzer is not installed; run: make fuzzer")
    chosen = LONG if request.config.getoption("--long") else SHORT
    headers = {"X-Api-Key": await create_key(storage, "fuzzer")}
    graphs = {**GRAPHS, **OURS.graphs}
    with running_server(valkey_url, graphs, auth=("keys",)) as url:
        await asyncio.to_thread(fuzzed, url, headers, *chosen, place=tmp_path)
