"""LangGraph's JavaScript client in Node.js against our server, on both wires."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.doubles.wire_served import APPROVED, running_server_on_own_redis
from tests.wire import javascript

pytestmark = pytest.mark.slow

WORDS: Final = ["I", " ", "plan", " ", "to", " ", "do", " ", "X"]
LIVES: Final = ["running", "interrupted", "running", "completed"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as found:
        yield found


async def test_a_conversation_goes_on_over_every_wire(url: str, tmp_path: Path) -> None:
    told = await javascript.run_script("conversation.mjs", url, beside=tmp_path / "js")
    assert told["runs"] == {
        "events": ["metadata", "values", "updates", "values", "updates", "values"],
        "paused": "interrupted",
        "questions": 1,
        "decision": APPROVED,
        "next": [],
        "history": 5,
        "runs": ["success", "success"],
    }
    assert told["left"] == {"ticks": [*range(30)], "status": "interrupted"}
    assert told["back"] == {"forked": {"x": 3, "log": ["a", "b", "c"]}, "changed": 13}
    expected = {"words": WORDS, "lives": LIVES, "decision": APPROVED}
    assert told["sse"] == expected
    assert told["socket"] == expected
