"""The Agent Streaming Protocol compared with a recorded stream of LangGraph's own server."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
import pytest

from tests.doubles.wire_served import HELLO, running_server_on_own_redis
from tests.wire import recorded
from tests.wire.protocol_reader import RECORDED_CHANNELS, Event, ProtocolThread

STORED_ID: Final = re.compile(r"\d{13}-\d+(\.\d+)?")
"""The id of a stored event; in LangGraph's server it has parts if several events came at once."""
OURS: Final = frozenset({"node", "run_id"})
"""Fields of a message part that LangGraph's server does not send."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as server_url:
        yield server_url


def normalize(value: Any) -> Any:
    return recorded.normalize(value, hide_ids, without_our_fields)


def hide_ids(text: str) -> str:
    return STORED_ID.sub("<stored>", re.sub(recorded.ID, "<some>", text))


def without_our_fields(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in fields.items() if name not in OURS}


def comparable(event: Event) -> Any:
    params = {name: value for name, value in event["params"].items() if name != "timestamp"}
    return normalize({**event, "params": params, "seq": None})


def sample() -> list[Event]:
    text = (recorded.SAMPLES / "sse_11_v2_events.txt").read_text()
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


async def test_the_events_of_an_interrupted_run_are_as_recorded(http: httpx.AsyncClient) -> None:
    theirs, thread = sample(), ProtocolThread(http)
    await thread.start(graph_input=HELLO)
    ours = await thread.read_until(lambda events: len(events) == len(theirs), RECORDED_CHANNELS)
    assert [comparable(event) for event in ours] == [comparable(event) for event in theirs]
    numbers = [event["seq"] for event in ours]
    assert numbers == sorted(set(numbers)), "numbers grow"
    assert all(isinstance(event["params"]["timestamp"], int) for event in ours)


async def test_the_reply_to_a_command_is_as_recorded(http: httpx.AsyncClient) -> None:
    text = (recorded.SAMPLES / "json_v2_run_start_response.txt").read_text()
    theirs = json.loads(text.rsplit("\n", 1)[-1])
    params = {"assistant_id": "agent", "input": HELLO}
    ours = await ProtocolThread(http).command("run.start", **params)
    assert normalize(ours) == normalize(theirs)
