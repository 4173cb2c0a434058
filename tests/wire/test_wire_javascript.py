"""LangGraph's JavaScript client in Node.js against our server, over REST and the Agent Streaming Protocol."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.doubles.wire_served import APPROVED, running_server_on_own_redis
from tests.wire import javascript

pytestmark = pytest.mark.slow

WORDS: Final = ["I", " ", "plan", " ", "to", " ", "do", " ", "X"]
STATUSES: Final = ["running", "interrupted", "running", "completed"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as server_url:
        yield server_url


async def test_the_javascript_client_works_over_rest_sse_and_web_socket(url: str, tmp_path: Path) -> None:
    results = await javascript.run_script("conversation.mjs", url, folder=tmp_path / "js")
    assert results["runs"] == {
        "events": ["metadata", "values", "updates", "values", "updates", "values"],
        "interrupted": "interrupted",
        "interrupts": 1,
        "decision": APPROVED,
        "next": [],
        "history": 5,
        "runs": ["success", "success"],
    }
    assert results["rejoined"] == {"ticks": [*range(30)], "status": "interrupted"}
    assert results["forks"] == {"forked": {"x": 3, "log": ["a", "b", "c"]}, "changed": 13}
    expected = {"words": WORDS, "statuses": STATUSES, "decision": APPROVED}
    assert results["sse"] == expected
    assert results["socket"] == expected
