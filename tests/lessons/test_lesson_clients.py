"""Lessons through LangGraph's own client: questions, answers, concurrent resumes, a killed server."""

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
    with running_server(redis, None) as server_url:
        yield server_url


async def send(client: LangGraphClient, thread: str, text: str) -> Any:
    graph_input: Any = {"messages": [{"role": "user", "content": text}]}
    return await client.runs.wait(thread, GRAPH, input=graph_input, context=OFFLINE)


async def resume(client: LangGraphClient, thread: str, answer: Any) -> Any:
    return await client.runs.wait(thread, GRAPH, command={"resume": answer}, context=OFFLINE)


async def ask_for_choice(client: LangGraphClient, name: str = "photosynthesis") -> tuple[str, Any]:
    """Return a thread that waits for a choice, and its question."""
    thread = await create_thread(client)
    state = await send(client, thread, STUDENT + material(name).text)
    [question] = state["__interrupt__"]
    return thread, question["value"]


async def narration_versions(redis: str, thread: str) -> list[Any]:
    async with connect(redis) as storage:
        return list((await Artefact(storage, "lesson", thread, LOCAL).stream("narration")).versions)


async def test_a_refused_answer_replaces_the_question_and_the_thread_stays_interrupted(
    client: LangGraphClient, redis: str
) -> None:
    """B53: an answer to the old question is a conflict."""
    thread, _ = await ask_for_choice(client)
    before: Any = await client.threads.get(thread)
    [old_id] = [interrupt["id"] for interrupts in before["interrupts"].values() for interrupt in interrupts]
    state = await resume(client, thread, {"facts": []})
    assert "at least one" in state["__interrupt__"][0]["value"]["problem"]
    after: Any = await client.threads.get(thread)
    assert after["status"] == "interrupted"
    with pytest.raises(httpx.HTTPStatusError, match="409"):
        await resume(client, thread, {old_id: "all"})
    assert not await narration_versions(redis, thread)


async def test_a_second_resume_of_an_answered_question_is_refused(
    client: LangGraphClient, redis: str
) -> None:
    """X9."""
    thread, _ = await ask_for_choice(client)
    await resume(client, thread, "all")
    with pytest.raises(httpx.HTTPStatusError, match="409"):
        await resume(client, thread, "all")
    assert len(await narration_versions(redis, thread)) == 1


async def test_a_message_while_a_question_is_pending_is_answered_and_the_question_stays(
    client: LangGraphClient,
) -> None:
    """B54."""
    thread, question = await ask_for_choice(client)
    state = await send(client, thread, "What can you do?")
    assert state["messages"][-1]["type"] == "ai"
    assert [fact["id"] for fact in state["__interrupt__"][0]["value"]["facts"]] == [
        fact["id"] for fact in question["facts"]
    ]


async def resume_at_both(
    client: LangGraphClient, other_client: LangGraphClient, thread: str, answer: Any
) -> list[Any]:
    """Return the outcomes of one answer sent to two servers at once."""
    requests = (resume(each, thread, answer) for each in (client, other_client))
    return await asyncio.gather(*requests, return_exceptions=True)


async def test_two_concurrent_resumes_at_two_servers_make_one_narration(
    redis: str, url: str, client: LangGraphClient
) -> None:
    """X9."""
    thread, _ = await ask_for_choice(client)
    with running_server(redis, None) as other_url:
        async with get_client(url=other_url) as other_client:
            outcomes = await resume_at_both(client, other_client, thread, "1, 2 and 3")
    assert len(await narration_versions(redis, thread)) == 1
    assert sum(isinstance(outcome, dict) for outcome in outcomes) >= 1


@pytest.mark.slow
@pytest.mark.timeout(90)
async def test_a_question_of_a_killed_server_is_answered_at_two_others_and_narrated_once(
    redis: str, warm_parent: WarmParent
) -> None:
    """B43, B50: server A is killed; B and C are sent the answer at once, by thread id."""
    pid, url_a = warm_parent.start(redis, 2)
    until(lambda: is_answering(url_a), "server A answers", patience_s=30)
    async with get_client(url=url_a) as client:
        thread, question = await ask_for_choice(client, "struggle_for_existence")
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_answering(url_a), "server A is gone", patience_s=30)
    chosen_ids = [question["facts"][number]["id"] for number in (0, 2, 4)]
    started = [warm_parent.start(redis, 2) for _ in range(2)]
    try:
        until(lambda: all(is_answering(url) for _, url in started), "B and C answer", patience_s=30)
        async with get_client(url=started[0][1]) as client_b, get_client(url=started[1][1]) as client_c:
            outcomes = await resume_at_both(client_b, client_c, thread, {"facts": chosen_ids})
    finally:
        for pid, _ in started:
            os.kill(pid, signal.SIGKILL)
    [version] = await narration_versions(redis, thread)
    assert Narration.model_validate(version.data).facts == set(chosen_ids)
    assert "soccer" in str(version.data)
    assert sum(isinstance(outcome, dict) for outcome in outcomes) >= 1


@pytest.mark.slow
@pytest.mark.timeout(90)
async def test_a_question_of_a_killed_server_is_answered_at_another_over_rest(
    redis: str, warm_parent: WarmParent
) -> None:
    """B33, B43, B50."""
    pid, url_a = warm_parent.start(redis, 2)
    until(lambda: is_answering(url_a), "server A answers", patience_s=30)
    body = {
        "messages": [
            {"id": "1", "role": "user", "content": STUDENT + material("struggle_for_existence").text}
        ]
    }
    async with httpx.AsyncClient(base_url=url_a, timeout=30) as http:
        facts_reply = (await http.post(TOOLS, json=body)).json()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_answering(url_a), "server A is gone", patience_s=30)
    chosen_facts = [facts_reply["facts"][number] for number in (0, 2, 4)]
    pid, url_b = warm_parent.start(redis, 2)
    try:
        until(lambda: is_answering(url_b), "server B answers", patience_s=30)
        async with httpx.AsyncClient(base_url=url_b, timeout=30) as http:
            answer = {"messages": [], "selectedFacts": chosen_facts, "sessionId": facts_reply["sessionId"]}
            reply = (await http.post(TOOLS, json=answer)).json()
    finally:
        os.kill(pid, signal.SIGKILL)
    assert reply["status"] == "script_generated", reply["message"]
    [version] = await narration_versions(redis, facts_reply["sessionId"])
    assert Narration.model_validate(version.data).facts == {fact["id"] for fact in chosen_facts}
