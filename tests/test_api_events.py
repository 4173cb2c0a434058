"""Events of a run as they leave the server: at once, kept alive, and not bound to their reader (A80, A82)."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, cast

from starlette.responses import StreamingResponse

from callsheet.server.http.events import DetachedStreams, event_stream_reply
from callsheet.server.runtime.worker import Ack, OnProgress
from callsheet.state.errors import Busy
from tests.served import OURS
from tests.waiting import eventually

STEP = {"type": "step", "stepId": "call-1", "tool": "create_music_draft", "status": "completed"}


def lines(reply: object) -> AsyncIterator[bytes]:
    return cast("AsyncIterator[bytes]", cast("StreamingResponse", reply).body_iterator)


async def arrived() -> None:
    """What is called once the result was sent; nothing depends on it here."""


async def test_an_event_leaves_when_it_happens_not_when_the_run_ends() -> None:
    """A82: the draft is told while the run still waits for something else."""
    go_on = asyncio.Event()

    async def carry(report: OnProgress) -> tuple[dict[str, Any], Ack]:
        report({**STEP, "preview": {"versionId": "v3"}})
        await go_on.wait()
        return {"message": "Zażółć"}, arrived

    told = lines(event_stream_reply(DetachedStreams(), OURS.tools, carry))
    assert (await anext(told)).startswith(b"event: step\ndata: ")
    assert await anext(told) == b'event: drafts\ndata: {"music": "v3"}\n\n'
    go_on.set()
    assert await anext(told) == 'event: result\ndata: {"message": "Zażółć"}\n\n'.encode()
    assert [line async for line in told] == []


async def test_a_step_that_made_nothing_announces_no_draft() -> None:
    async def carry(report: OnProgress) -> tuple[dict[str, Any], Ack]:
        report({**STEP, "status": "error", "preview": {"error": "no"}})
        report({**STEP, "status": "in-progress"})
        return {}, arrived

    told = [line async for line in lines(event_stream_reply(DetachedStreams(), OURS.tools, carry))]
    assert [line.split(b"\n")[0] for line in told] == [b"event: step", b"event: step", b"event: result"]


async def test_a_result_is_known_to_have_arrived_once_its_reader_asks_for_more() -> None:
    """The same request is a new one from then on, and not before."""
    calls = []

    async def noted() -> None:
        calls.append("arrived")

    async def carry(report: OnProgress) -> tuple[dict[str, Any], Ack]:
        return {}, noted

    told = lines(event_stream_reply(DetachedStreams(), OURS.tools, carry))
    await anext(told)
    assert calls == []
    assert [line async for line in told] == []
    assert calls == ["arrived"]


async def test_silence_is_filled_with_comments() -> None:
    go_on = asyncio.Event()

    async def carry(report: OnProgress) -> tuple[dict[str, Any], Ack]:
        await go_on.wait()
        return {}, arrived

    told = lines(event_stream_reply(DetachedStreams(), OURS.tools, carry, heartbeat_s=0.001))
    assert {await anext(told) for _ in range(3)} == {b": still at it\n\n"}
    go_on.set()
    rest = [line async for line in told]
    assert rest[-1] == b"event: result\ndata: {}\n\n"


async def test_a_refusal_ends_the_stream_with_its_body_and_status() -> None:
    async def carry(report: OnProgress) -> tuple[dict[str, Any], Ack]:
        raise Busy("thread 'ad-1' is busy", remedy="wait")

    (line,) = [one async for one in lines(event_stream_reply(DetachedStreams(), OURS.tools, carry))]
    assert json.loads(line.split(b"data: ")[1]) == {
        "error": "thread 'ad-1' is busy",
        "type": "busy",
        "remedy": "wait",
        "retryAfterSeconds": 1.0,
        "status": 409,
    }


async def test_a_run_goes_on_when_its_reader_is_gone_and_ends_with_the_server() -> None:
    running, finished = DetachedStreams(), []
    go_on = asyncio.Event()

    async def carry(report: OnProgress) -> tuple[dict[str, Any], Ack]:
        report(STEP)
        await go_on.wait()
        finished.append("yes")
        return {}, arrived

    async def endless(report: OnProgress) -> tuple[dict[str, Any], Ack]:
        await asyncio.Event().wait()
        return {}, arrived

    told = lines(event_stream_reply(running, OURS.tools, carry))
    await anext(told)
    await cast("Any", told).aclose()
    go_on.set()
    await eventually(lambda: _is(finished == ["yes"]), "the run without a reader ended")
    cut_short = lines(event_stream_reply(running, OURS.tools, endless, heartbeat_s=0.001))
    await anext(cut_short)
    await running.stop()
    assert [line async for line in cut_short if not line.startswith(b":")] == []


async def _is(value: object) -> bool:
    return bool(value)
