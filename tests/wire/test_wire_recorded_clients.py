"""What clients were recorded asking LangGraph's own server, asked of ours: the same kinds of replies.

Ids that the recorded server made are put in the places of those that ours makes.
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
ENDLESS: Final = "/stream/events"
LENIENT: Final = {"/assistants/agent/schemas": 200}
"""Where a graph's name stands for its assistant, which their server refuses."""
Call = dict[str, Any]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as found:
        yield found


def calls(name: str) -> list[Call]:
    """What was recorded of a client, without marks and what it broke off."""
    lines = map(json.loads, (recorded.SAMPLES / name).read_text().splitlines())
    return [one for one in lines if "path" in one and not one["path"].startswith("/__mark")]


class Replay:
    """A recorded client, with the ids of our server."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._ours: dict[str, str] = {}
        self._run = ""

    def ours(self, text: str) -> str:
        for theirs, mine in self._ours.items():
            text = text.replace(theirs, mine)
        return text

    async def asked(self, call: Call, rest: Sequence[Call]) -> None:
        """Ask it, and fail where the reply is another than the recorded one."""
        await self._known(call)
        sent = {name: one for name, one in call["headers"].items() if name != "content-length"}
        path, body = self.ours(call["path"]), self.ours(call["body"])
        async with self._http.stream(call["method"], path, content=body, headers=sent) as reply:
            if ENDLESS not in path:
                await reply.aread()
            about = f"{call['method']} {path} {body}"
            assert reply.status_code == LENIENT.get(path, call["status"]), about
            assert reply.headers.get("content-type") == call.get("rct"), about
            self._learned(call, reply, rest)
            for recorded_as, name in (("loc", "location"), ("cloc", "content-location")):
                assert reply.headers.get(name) == (self.ours(call.get(recorded_as) or "") or None), about

    async def _known(self, call: Call) -> None:
        """Learn what the call names that ours has made by itself."""
        place = self.ours(next(iter(THREAD.findall(call["path"])), ""))
        for theirs in RUN.findall(call["path"]):
            self._ours.setdefault(theirs, self._run)
        for theirs in QUESTION.findall(call["body"]):
            self._ours[theirs] = await self._question(place)
        for theirs in CHECKPOINT.findall(call["body"]):
            self._ours[theirs] = await self._checkpoint(place, step=int(theirs.split("-")[3], 16) & 0x3FFF)

    async def _question(self, thread: str) -> str:
        found: list[str] = []

        async def asks() -> bool:
            state = (await self._http.get(f"/threads/{thread}/state")).json()
            found.extend(one["id"] for one in state.get("interrupts", ()))
            return bool(found)

        await eventually(asks, "the question")
        return found[0]

    async def _checkpoint(self, thread: str, step: int) -> str:
        """The id of the newest checkpoint after that step; theirs has its step in its id."""
        history = (await self._http.post(f"/threads/{thread}/history", json={"limit": 10})).json()
        return str(next(one["checkpoint_id"] for one in history if one["metadata"]["step"] == step))

    def _learned(self, call: Call, reply: httpx.Response, rest: Sequence[Call]) -> None:
        """Learn which ids ours has made."""
        if call["path"] == "/threads":
            theirs = next(found for one in rest for found in THREAD.findall(one["path"]))
            self._ours[theirs] = reply.json()["thread_id"]
        elif call["path"].endswith("/commands"):
            told = reply.json()
            assert told["type"] == "success", told
            self._run = told["result"]["run_id"]
        elif call.get("cloc"):
            self._run = RUN.findall(reply.headers["content-location"])[0]
            self._ours[RUN.findall(call["cloc"])[0]] = self._run


@pytest.mark.parametrize(
    ("name", "most"),
    [("http_legacy_usestream.jsonl", 13), ("http_python_sdk.jsonl", 14), ("http_v1_usestream.jsonl", 8)],
)
async def test_a_recorded_client_gets_the_recorded_kinds_of_replies(
    http: httpx.AsyncClient, name: str, most: int
) -> None:
    """X10: both React hooks and the Python client, as they called LangGraph's server."""
    replay, said = Replay(http), calls(name)
    assert len(said) >= most
    for number, call in enumerate(said):
        await replay.asked(call, said[number + 1 :])
