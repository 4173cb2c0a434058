"""Lessons through LangGraph's own client: the question, its answers, two at once, a server that is killed."""

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from callsheet.state.lessons.narration import Narration
from callsheet.state.owners import LOCAL
from callsheet.storage import connect
from callsheet.storage.artefacts.artefacts import Artefact
from tests.doubles.killing import WarmParent, is_answering
from tests.doubles.waiting import until
from tests.doubles.wire_served import create_thread
from tests.doubles.wire_server import running_server
from tests.lessons.lesson_client import TOOLS
from tests.lessons.lesson_material import material

GRAPH = "fact_narration"
OFFLINE: Any = {"provider": "offline"}
STUDENT = "My student is 10 and loves soccer.\n\n"


@pytest.fixture(scope="module")
def url(redis: str) -> Iterator[str]:
    with running_server(redis, None) as found:
        yield found


async def says(client: LangGraphClient, thread: str, text: str) -> Any:
    given: Any = {"messages": [{"role": "user", "content": text}]}
    return await client.runs.wait(thread, GRAPH, input=given, context=OFFLINE)


async def answers(client: LangGraphClient, thread: str, answer: Any) -> Any:
    return await client.runs.wait(thread, GRAPH, command={"resume": answer}, context=OFFLINE)


async def waiting(client: LangGraphClient, name: str = "photosynthesis") -> tuple[str, Any]:
    """Return a thread that waits for a choice, and its question."""
    thread = await create_thread(client)
    state = await says(client, thread, STUDENT + material(name).text)
    [question] = state["__interrupt__"]
    return thread, question["value"]


async def versions(redis: str, thread: str) -> list[Any]:
    async with connect(redis) as storage:
        return list((await Artefact(storage, "lesson", thread, LOCAL).stream("narration")).versions)


async def test_a_refused_answer_leaves_the_thread_waiting(client: LangGraphClient, redis: str) -> None:
    """B53: the old question is gone, and an answer to it is told so."""
    thread, _ = await waiting(client)
    before: Any = await client.threads.get(thread)
    [old] = [one["id"] for asked in before["interrupts"].values() for one in asked]
    state = await answers(client, thread, {"facts": []})
    assert "at least one" in state["__interrupt__"][0]["value"]["problem"]
    found: Any = await client.threads.get(thread)
    assert found["status"] == "interrupted"
    with pytest.raises(httpx.HTTPStatusError, match="409"):
        await answers(client, thread, {old: "all"})
    assert not await versions(redis, thread)


async def test_the_same_answer_sent_again_is_told_that_nothing_waits(
    client: LangGraphClient, redis: str
) -> None:
    """X9."""
    thread, _ = await waiting(client)
    await answers(client, thread, "all")
    with pytest.raises(httpx.HTTPStatusError, match="409"):
        await answers(client, thread, "all")
    assert len(await versions(redis, thread)) == 1


async def test_what_is_said_while_it_waits_is_answered_and_it_waits_on(client: LangGraphClient) -> None:
    """B54."""
    thread, question = await waiting(client)
    state = await says(client, thread, "What can you do?")
    assert state["messages"][-1]["type"] == "ai"
    assert [fact["id"] for fact in state["__interrupt__"][0]["value"]["facts"]] == [
        fact["id"] for fact in question["facts"]
    ]


async def both(first: LangGraphClient, other: LangGraphClient, thread: str, answer: Any) -> list[Any]:
    """Return what becomes of one answer sent to two servers at once."""
    sent = (answers(one, thread, answer) for one in (first, other))
    return await asyncio.gather(*sent, return_exceptions=True)


async def test_two_answers_at_once_make_one_narration(redis: str, url: str, client: LangGraphClient) -> None:
    """X9: to two servers."""
    thread, _ = await waiting(client)
    with running_server(redis, None) as there:
        async with get_client(url=there) as other:
            ended = await both(client, other, thread, "1, 2 and 3")
    assert len(await versions(redis, thread)) == 1
    assert sum(isinstance(one, dict) for one in ended) >= 1


@pytest.mark.slow
@pytest.mark.timeout(90)
async def test_a_choice_outlives_the_server_that_asked_for_it(redis: str, warm_parent: WarmParent) -> None:
    """B43, B50: server A is killed, and of B and C, asked at once by thread id, one narrates."""
    pid, here = warm_parent.start(redis, 2)
    until(lambda: is_answering(here), "server A answers", patience_s=30)
    async with get_client(url=here) as client:
        thread, question = await waiting(client, "struggle_for_existence")
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_answering(here), "server A is gone", patience_s=30)
    chosen = [question["facts"][number]["id"] for number in (0, 2, 4)]
    started = [warm_parent.start(redis, 2) for _ in range(2)]
    try:
        until(lambda: all(is_answering(there) for _, there in started), "B and C answer", patience_s=30)
        async with get_client(url=started[0][1]) as one, get_client(url=started[1][1]) as other:
            ended = await both(one, other, thread, {"facts": chosen})
    finally:
        for pid, _ in started:
            os.kill(pid, signal.SIGKILL)
    [made] = await versions(redis, thread)
    assert Narration.model_validate(made.data).facts == set(chosen)
    assert "soccer" in str(made.data)
    assert sum(isinstance(each, dict) for each in ended) >= 1


@pytest.mark.slow
@pytest.mark.timeout(90)
async def test_a_choice_outlives_its_server_over_rest(redis: str, warm_parent: WarmParent) -> None:
    """B33, B43, B50: asked by server A, which is killed; answered to server B."""
    pid, here = warm_parent.start(redis, 2)
    until(lambda: is_answering(here), "server A answers", patience_s=30)
    said = {
        "messages": [
            {"id": "1", "role": "user", "content": STUDENT + material("struggle_for_existence").text}
        ]
    }
    async with httpx.AsyncClient(base_url=here, timeout=30) as http:
        found = (await http.post(TOOLS, json=said)).json()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_answering(here), "server A is gone", patience_s=30)
    chosen = [found["facts"][number] for number in (0, 2, 4)]
    pid, there = warm_parent.start(redis, 2)
    try:
        until(lambda: is_answering(there), "server B answers", patience_s=30)
        async with httpx.AsyncClient(base_url=there, timeout=30) as http:
            answer = {"messages": [], "selectedFacts": chosen, "sessionId": found["sessionId"]}
            told = (await http.post(TOOLS, json=answer)).json()
    finally:
        os.kill(pid, signal.SIGKILL)
    assert told["status"] == "script_generated", told["message"]
    [made] = await versions(redis, found["sessionId"])
    assert Narration.model_validate(made.data).facts == {one["id"] for one in chosen}
