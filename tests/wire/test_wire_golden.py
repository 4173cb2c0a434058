"""Our streams beside recorded ones of LangGraph's own server: the same events, in the same order and shape.

Of what was recorded everything is compared but ids, times, and what says which server it was.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
import pytest

from tests.doubles.wire_served import APPROVED, HELLO, running_server_on_own_redis
from tests.wire import recorded

ALL: Final = ["values", "updates", "custom", "messages-tuple", "events", "debug", "tasks", "checkpoints"]
TALK: Final = ["values", "updates", "custom", "messages-tuple"]
CHANGING: Final = re.compile(rf"{recorded.ID}|\d{{4}}-\d\d-\d\dT[\d:.]+\+00:00")
"""Ids and times."""
THEIRS: Final = frozenset(
    {
        *("langgraph_api_url", "langgraph_api_version", "langgraph_host", "langgraph_plan"),
        *("langgraph_version", "langgraph_auth_user", "langgraph_auth_user_id", "langgraph_auth_permissions"),
        *("langgraph_request_id", "user_id", "__request_start_time_ms__", "__after_seconds__", "langchain"),
    }
)
"""What says which server it was."""
OURS: Final = frozenset({"checkpoint_ns", "checkpoint", "parent_checkpoint"})
"""Where a checkpoint is, which we tell in more places."""

Told = list[tuple[str, Any, str | None]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as found:
        yield found


def told(text: str) -> Told:
    """The events of a stream: name, data, and id or None."""
    found: Told = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and line[0] != ":")
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"]), fields.get("id")))
    return found


def sample(name: str) -> Told:
    text = (recorded.SAMPLES / name).read_text()
    return told(text.split("\n\n", 1)[1] if text.startswith("HTTP/") else text)


def kept(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is compared of an object."""
    found = {name: each for name, each in value.items() if name not in THEIRS | OURS}
    if str(value.get("event")).startswith("on_chat_model_"):
        # Their graph's model was given the conversation, and the one of ours is given nothing.
        found["data"] = {name: each for name, each in value["data"].items() if name != "input"}
    return found


def plain(value: Any) -> Any:
    return recorded.normalized(value, lambda text: CHANGING.sub("<some>", text), kept)


def alike(ours: Told, theirs: Told) -> None:
    """Fail unless the streams tell the same."""
    assert [plain(name) for name, _, _ in ours] == [plain(name) for name, _, _ in theirs]
    for (name, data, event_id), (_, expected, expected_id) in zip(ours, theirs, strict=True):
        assert plain(data) == plain(expected), name
        assert (event_id is None) == (expected_id is None), name


async def thread_of(http: httpx.AsyncClient) -> str:
    return str((await http.post("/threads", json={})).json()["thread_id"])


async def streamed(http: httpx.AsyncClient, place: str, graph: str, **asked: Any) -> Told:
    reply = await http.post(f"{place}/runs/stream", json={"assistant_id": graph, **asked})
    assert reply.status_code == 200, reply.text
    return told(reply.text)


async def test_a_run_up_to_its_question_in_all_modes(http: httpx.AsyncClient) -> None:
    place = f"/threads/{await thread_of(http)}"
    found = await streamed(http, place, "agent", input=HELLO, stream_mode=ALL, stream_resumable=True)
    alike(found, sample("sse_01_run_to_interrupt_all_modes.txt"))


async def test_an_answer_and_the_same_run_told_again(http: httpx.AsyncClient) -> None:
    place = f"/threads/{await thread_of(http)}"
    await streamed(http, place, "agent", input=HELLO, stream_mode=ALL)
    command = {"resume": APPROVED}
    found = await streamed(http, place, "agent", command=command, stream_mode=TALK, stream_resumable=True)
    alike(found, sample("sse_02_resume.txt"))
    run = f"{place}/runs/{found[0][1]['run_id']}/stream"
    whole = told((await http.get(run, headers={"Last-Event-ID": "-1"})).text)
    alike(whole, sample("sse_07a_join_finished_from_start.txt"))
    middle = sample("sse_07b_join_finished_from_mid.txt")
    last = found[-len(middle) - 1][2]
    alike(told((await http.get(run, headers={"Last-Event-ID": str(last)})).text), middle)
    assert told((await http.get(run)).text) == sample("sse_07c_join_finished_nohdr.txt") == []


@pytest.mark.parametrize(
    ("name", "graph", "asked"),
    [
        ("sse_03_messages_mode.txt", "agent", {"input": HELLO, "stream_mode": ["messages"]}),
        (
            "sse_04_messages_tuple_mode.txt",
            "agent",
            {"input": HELLO, "stream_mode": ["messages-tuple", "values"]},
        ),
        ("sse_05_error.txt", "boom", {"input": {"x": 1}, "stream_mode": ["values", "updates"]}),
        (
            "sse_06_subgraphs.txt",
            "parent",
            {"input": HELLO, "stream_mode": [*TALK, "tasks"], "stream_subgraphs": True},
        ),
    ],
)
async def test_a_stream_of_a_mode(http: httpx.AsyncClient, name: str, graph: str, asked: Any) -> None:
    alike(await streamed(http, f"/threads/{await thread_of(http)}", graph, **asked), sample(name))


async def test_a_run_without_a_thread(http: httpx.AsyncClient) -> None:
    found = await streamed(http, "", "counter", input={"x": 1}, stream_mode=["updates"])
    alike(found, sample("sse_09_stateless.txt"))


async def test_a_run_that_is_left_and_joined_again(http: httpx.AsyncClient) -> None:
    """Recorded of 26 ticks, of which a reader saw the first six."""
    place = f"/threads/{await thread_of(http)}"
    asked = {"assistant_id": "slow", "input": {"x": 26}, "stream_mode": ["values", "custom"]}
    run = (await http.post(f"{place}/runs", json={**asked, "stream_resumable": True})).json()["run_id"]
    first = sample("sse_08a_join_live_then_drop.txt")
    run_place = f"{place}/runs/{run}/stream"
    seen = ""
    async with http.stream("GET", run_place, headers={"Last-Event-ID": "-1"}) as reply:
        async for part in reply.aiter_text():
            seen += part
            if len(told(seen)) >= len(first):
                break
    begun = told(seen.rpartition("\r\n\r\n")[0])[: len(first)]
    alike(begun, first)
    rest = await http.get(run_place, headers={"Last-Event-ID": str(begun[-1][2])})
    alike(told(rest.text), sample("sse_08b_join_live_resume_last_event_id.txt"))


async def test_a_run_that_is_cancelled(http: httpx.AsyncClient) -> None:
    """Recorded up to the fifth tick."""
    place = f"/threads/{await thread_of(http)}"
    theirs = sample("sse_10_cancelled.txt")
    asked = {"assistant_id": "slow", "input": {"x": 400}, "stream_mode": "custom", "stream_resumable": True}
    seen = ""
    async with http.stream("POST", f"{place}/runs/stream", json=asked) as reply:
        cancel = reply.headers["content-location"] + "/cancel"
        async for part in reply.aiter_text():
            seen += part
            if len(told(seen)) == len(theirs):
                await http.post(cancel)
    ours = told(seen)
    alike(ours[: len(theirs)], theirs)
    assert {name for name, _, _ in ours[len(theirs) :]} <= {"custom"}, "nothing is told of the end"


async def test_a_thread_and_all_its_runs(http: httpx.AsyncClient) -> None:
    place, theirs = f"/threads/{await thread_of(http)}", sample("sse_12_thread_stream.txt")
    await streamed(http, place, "counter", input={"x": 1})
    seen = ""
    async with http.stream("GET", f"{place}/stream", headers={"Last-Event-ID": "-1"}) as reply:
        async for part in reply.aiter_text():
            seen += part
            if len(told(seen)) == len(theirs):
                break
    alike(told(seen), theirs)


async def test_a_run_as_an_object(http: httpx.AsyncClient) -> None:
    place = f"/threads/{await thread_of(http)}"
    asked = {"assistant_id": "slow", "input": {"x": 26}, "stream_mode": ["values", "custom"]}
    ours = (await http.post(f"{place}/runs", json={**asked, "stream_resumable": True})).json()
    theirs = json.loads((recorded.SAMPLES / "json_run_create.json").read_text())
    # Where they keep a step while the next one runs, we keep it before.
    theirs["kwargs"]["durability"] = "sync"
    assert plain(ours) == plain(theirs)
    await http.post(f"{place}/runs/{ours['run_id']}/cancel", params={"wait": 1})


@pytest.mark.parametrize(
    ("sample", "ending"),
    [("sse_01_run_to_interrupt_all_modes.txt", "stream"), ("sse_02_resume.txt", "stream")],
)
async def test_the_headers_of_a_stream(http: httpx.AsyncClient, sample: str, ending: str) -> None:
    head = (recorded.SAMPLES / sample).read_text().split("\n\n", 1)[0].splitlines()[1:]
    theirs = dict(line.split(": ", 1) for line in head)
    place = f"/threads/{await thread_of(http)}/runs/{ending}"
    reply = await http.post(place, json={"assistant_id": "counter", "input": {"x": 1}})
    same = ("location", "content-location", "cache-control", "x-accel-buffering", "content-type")
    assert {name: plain(reply.headers[name]) for name in same} == {name: plain(theirs[name]) for name in same}
