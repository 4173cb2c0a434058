"""The second wire beside a recorded stream of LangGraph's own server: the same events in the same order."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
import pytest

from tests.doubles.wire_served import HELLO, running_server_on_own_redis
from tests.wire import recorded
from tests.wire.protocol_reader import SEEN, Event, ProtocolThread

STORED: Final = re.compile(r"\d{13}-\d+(\.\d+)?")
"""The id of an event that is stored; theirs have parts, where several came at once."""
OURS: Final = frozenset({"node", "run_id"})
"""Whose a part of a message is, which theirs does not say."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as found:
        yield found


def plain(value: Any) -> Any:
    return recorded.normalized(value, hidden, kept)


def hidden(text: str) -> str:
    return STORED.sub("<stored>", re.sub(recorded.ID, "<some>", text))


def kept(told: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: each for name, each in told.items() if name not in OURS}


def alike(event: Event) -> Any:
    params = {name: one for name, one in event["params"].items() if name != "timestamp"}
    return plain({**event, "params": params, "seq": None})


def sample() -> list[Event]:
    text = (recorded.SAMPLES / "sse_11_v2_events.txt").read_text()
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


async def test_a_run_up_to_its_question_is_told_as_recorded(http: httpx.AsyncClient) -> None:
    theirs, wire = sample(), ProtocolThread(http)
    await wire.start(given=HELLO)
    ours = await wire.seen(lambda told: len(told) == len(theirs), SEEN)
    assert [alike(event) for event in ours] == [alike(event) for event in theirs]
    numbers = [event["seq"] for event in ours]
    assert numbers == sorted(set(numbers)), "numbers grow"
    assert all(isinstance(event["params"]["timestamp"], int) for event in ours)


async def test_a_command_is_answered_as_recorded(http: httpx.AsyncClient) -> None:
    text = (recorded.SAMPLES / "json_v2_run_start_response.txt").read_text()
    theirs = json.loads(text.rsplit("\n", 1)[-1])
    asked = {"assistant_id": "agent", "input": HELLO}
    ours = await ProtocolThread(http).command("run.start", **asked)
    assert plain(ours) == plain(theirs)
