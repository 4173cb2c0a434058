"""Requests that clients sent to LangGraph's own server, replayed to ours: the replies have the same form.

Ids of the recorded server are replaced by those of our server.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import httpx
import pytest

from tests.doubles.waiting import eventually
from tests.doubles.wire_served import running_server_on_own_redis
from tests.wire import recorded

THREAD: Final = re.compile(r"/threads/([0-9a-f-]{36})")
RUN: Final = re.compile(r"/runs/([0-9a-f-]{36})")
QUESTION: Final = re.compile(r'"interrupt_id":"([0-9a-f]{32})"')
CHECKPOINT: Final = re.compile(r'"checkpoint_id":"([0-9a-f-]{36})"')
OPEN_STREAM: Final = "/stream/events"
OTHER_STATUS: Final = {"/assistants/agent/schemas": 200}
"""Our status where it differs: LangGraph's server refuses a graph's name for its assistant on this route."""
Call = dict[str, Any]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as next_thread_id:
        yield next_thread_id


def recorded_calls(name: str) -> list[Call]:
    """Return the recorded calls of a client, without marks and aborted calls."""
    lines = map(json.loads, (recorded.SAMPLES / name).read_text().splitlines())
    return [line for line in lines if "path" in line and not line["path"].startswith("/__mark")]


class ClientReplay:
    """A recorded client that uses the ids of our server."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._our_ids: dict[str, str] = {}
        self._run = ""

    def with_our_ids(self, text: str) -> str:
        for theirs, our_id in self._our_ids.items():
            text = text.replace(theirs, our_id)
        return text

    async def send(self, call: Call, rest: Sequence[Call]) -> None:
        """Send a call; fail unless status and headers of the reply are as recorded."""
        await self._map_ids_of_request(call)
        headers = {name: value for name, value in call["headers"].items() if name != "content-length"}
        path, body = self.with_our_ids(call["path"]), self.with_our_ids(call["body"])
        async with self._http.stream(call["method"], path, content=body, headers=headers) as reply:
            if OPEN_STREAM not in path:
                await reply.aread()
            context = f"{call['method']} {path} {body}"
            assert reply.status_code == OTHER_STATUS.get(path, call["status"]), context
            assert reply.headers.get("content-type") == call.get("rct"), context
            self._map_ids_of_reply(call, reply, rest)
            for recorded_as, name in (("loc", "location"), ("cloc", "content-location")):
                assert reply.headers.get(name) == (self.with_our_ids(call.get(recorded_as) or "") or None), (
                    context
                )

    async def _map_ids_of_request(self, call: Call) -> None:
        """Map ids in the call to those that our server created by itself."""
        place = self.with_our_ids(next(iter(THREAD.findall(call["path"])), ""))
        for theirs in RUN.findall(call["path"]):
            self._our_ids.setdefault(theirs, self._run)
        for theirs in QUESTION.findall(call["body"]):
            self._our_ids[theirs] = await self._question(place)
        for theirs in CHECKPOINT.findall(call["body"]):
            self._our_ids[theirs] = await self._checkpoint(place, step=int(theirs.split("-")[3], 16) & 0x3FFF)

    async def _question(self, thread: str) -> str:
        interrupts: list[str] = []

        async def has_interrupt() -> bool:
            state = (await self._http.get(f"/threads/{thread}/state")).json()
            interrupts.extend(interrupt["id"] for interrupt in state.get("interrupts", ()))
            return bool(interrupts)

        await eventually(has_interrupt, "the question")
        return interrupts[0]

    async def _checkpoint(self, thread: str, step: int) -> str:
        """Return the id of our newest checkpoint of a step; the recorded id contains its step."""
        history = (await self._http.post(f"/threads/{thread}/history", json={"limit": 10})).json()
        return str(next(state["checkpoint_id"] for state in history if state["metadata"]["step"] == step))

    def _map_ids_of_reply(self, call: Call, reply: httpx.Response, rest: Sequence[Call]) -> None:
        """Map recorded ids to those in the reply of our server."""
        if call["path"] == "/threads":
            theirs = next(thread_id for later in rest for thread_id in THREAD.findall(later["path"]))
            self._our_ids[theirs] = reply.json()["thread_id"]
        elif call["path"].endswith("/commands"):
            body = reply.json()
            assert body["type"] == "success", body
            self._run = body["result"]["run_id"]
        elif call.get("cloc"):
            self._run = RUN.findall(reply.headers["content-location"])[0]
            self._our_ids[RUN.findall(call["cloc"])[0]] = self._run


@pytest.mark.parametrize(
    ("name", "least"),
    [("http_legacy_usestream.jsonl", 13), ("http_python_sdk.jsonl", 14), ("http_v1_usestream.jsonl", 8)],
)
async def test_a_recorded_client_gets_the_recorded_kinds_of_replies(
    http: httpx.AsyncClient, name: str, least: int
) -> None:
    """X10: both React hooks and the Python client, as they called LangGraph's server."""
    replay, recorded_requests = ClientReplay(http), recorded_calls(name)
    assert len(recorded_requests) >= least
    for number, call in enumerate(recorded_requests):
        await replay.send(call, recorded_requests[number + 1 :])
