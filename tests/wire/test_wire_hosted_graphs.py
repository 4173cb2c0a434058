"""Projects that others wrote for LangGraph behave as on LangGraph's own server (X6, X7)."""

import asyncio
import base64
import operator
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final, NamedTuple

import httpx
import numpy as np
import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.runtime import Runtime
from langgraph.types import Send, interrupt
from langgraph_sdk.client import LangGraphClient
from typing_extensions import TypedDict

from tests.doubles.waiting import until
from tests.doubles.wire_served import (
    collect,
    create_thread,
    graph_input,
    new_id,
    running_server_on_own_redis,
)

SECRET: Final = "an api key"


class InputText(TypedDict):
    question: str


class OutputText(TypedDict):
    answer: str


class WorkState(InputText, OutputText):
    """The whole state; `notes` is of no concern to callers."""

    notes: str


class Count(TypedDict):
    log: Annotated[list[str], operator.add]


class Point(NamedTuple):
    x: int
    y: float


class ValuesState(TypedDict):
    values: Any


class Ids(TypedDict):
    ids: dict[str, Any]


class Exam(TypedDict, total=False):
    answered: str
    score: int


class TalkingExam(Exam, total=False):
    messages: list[str]


async def score(state: Exam) -> dict[str, Any]:
    return {"answered": "yes", "score": 1}


async def think(state: WorkState) -> dict[str, Any]:
    return {"notes": SECRET}


async def answer_question(state: WorkState) -> dict[str, Any]:
    return {"answer": state["question"].upper()}


async def ask_question(state: WorkState) -> dict[str, Any]:
    return {"answer": interrupt("are you sure?"), "notes": SECRET}


def chain(schema: Any, *nodes: Any, **schemas: Any) -> StateGraph[Any, Any, Any, Any]:
    builder = StateGraph(schema, **schemas)
    builder.add_sequence(list(nodes))
    builder.add_edge(START, nodes[0].__name__)
    builder.add_edge(nodes[-1].__name__, END)
    return builder


def ask_each() -> Any:
    async def ask(state: dict[str, str]) -> dict[str, Any]:
        return {"log": [interrupt(state["about"])]}

    async def note(state: dict[str, str]) -> dict[str, Any]:
        return {"log": ["note"]}

    builder: Any = StateGraph(Count)
    builder.add_node("ask", ask)
    builder.add_node("note", note)
    questions = [Send("ask", {"about": about}) for about in ("one", "two", "three")]
    builder.add_conditional_edges(START, lambda _: [*questions, Send("note", {})])
    return builder.compile()


_running = 0


def count_concurrent() -> Any:
    """Five tasks at once; each notes how many run beside it."""

    async def work(state: Count) -> dict[str, Any]:
        global _running  # noqa: PLW0603 -- tasks of one step share nothing else
        _running += 1
        for _ in range(20):
            await asyncio.sleep(0)
        most, _running = _running, _running - 1
        return {"log": [str(most)]}

    builder = StateGraph(Count)
    builder.add_node("work", work)
    builder.add_conditional_edges(START, lambda _: [Send("work", {"log": []})] * 5)
    return builder.compile()


async def make_values(state: ValuesState) -> dict[str, Any]:
    return {
        "values": {
            "array": np.arange(2_000),
            "matrix": np.eye(2),
            "column": np.asfortranarray([[1, 2], [3, 4]]),
            "int": np.int64(7),
            "float": np.float32(0.5),
            "flag": np.bool_(True),  # noqa: FBT003
            "missing": np.float64("nan"),
            "text": np.str_("word"),
            "bytes": b"\x00\xffpng",
            "bytearray": bytearray(b"abc"),
            "point": Point(1, 2.5),
        }
    }


async def report_ids(state: Ids, config: RunnableConfig, runtime: Runtime[None]) -> dict[str, Any]:
    info = runtime.execution_info
    return {
        "ids": {"info": info and info.run_id, "config": str(config.get("run_id")), "node": config["metadata"]}
    }


async def block_the_loop(state: Count) -> dict[str, Any]:
    time.sleep(2)  # noqa: ASYNC251 -- the mistake that is looked for
    return {"log": ["blocked"]}


async def answer_in_words(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await GenericFakeChatModel(messages=iter([AIMessage("hi you")])).ainvoke("")]}


def nest_graphs() -> Any:
    child = chain(MessagesState, answer_in_words).compile()
    builder: Any = StateGraph(MessagesState)
    builder.add_node("child", child)
    builder.add_edge(START, "child")
    return builder.compile(name="a name of its own")


GRAPHS: Final = {
    "nested": nest_graphs(),
    "blocking": chain(Count, block_the_loop).compile(),
    "private": chain(
        WorkState, think, answer_question, input_schema=InputText, output_schema=OutputText
    ).compile(),
    "paused": chain(
        WorkState, think, ask_question, input_schema=InputText, output_schema=OutputText
    ).compile(),
    "questions": ask_each(),
    "concurrent": count_concurrent(),
    "values": chain(ValuesState, make_values).compile(),
    "ids": chain(Ids, report_ids).compile(),
    "quiz": chain(Exam, score).compile(),
    "talking_quiz": chain(TalkingExam, score).compile(),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(GRAPHS) as server_url:
        yield server_url


WHY: Final = graph_input(question="why?")


async def test_a_result_has_the_fields_of_the_output_schema_only(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    assert await client.runs.wait(thread, "private", input=WHY) == {"answer": "WHY?"}
    [run] = await client.runs.list(thread)
    assert await client.runs.join(thread, run["run_id"]) == {"answer": "WHY?"}
    assert await client.runs.wait(None, "private", input=WHY) == {"answer": "WHY?"}


async def test_streams_of_values_and_updates_have_the_fields_of_the_output_schema_only(
    client: LangGraphClient,
) -> None:
    thread = await create_thread(client)
    modes: Any = ["values", "updates"]
    events = await collect(client.runs.stream(thread, "private", input=WHY, stream_mode=modes))
    assert SECRET not in str(events)
    assert [event.data for event in events if event.event == "values"][-1] == {"answer": "WHY?"}
    updates = [event.data for event in events if event.event == "updates"]
    assert updates[-1] == {"answer_question": {"answer": "WHY?"}}


async def test_a_paused_run_returns_its_question_and_the_fields_of_the_output_schema_only(
    client: LangGraphClient,
) -> None:
    thread = await create_thread(client)
    paused: Any = await client.runs.wait(thread, "paused", input=WHY)
    assert [*paused] == ["__interrupt__"]
    assert await client.runs.wait(thread, "paused", command={"resume": "yes"}) == {"answer": "yes"}


@pytest.mark.parametrize("name", ["quiz", "talking_quiz"])
async def test_a_graph_may_have_a_key_of_the_name_by_which_a_lesson_marks_its_answers(
    client: LangGraphClient, name: str
) -> None:
    text: dict[str, Any] = {"messages": ["hi"]} if name == "talking_quiz" else {}
    values: Any = await client.runs.wait(None, name, input=graph_input(score=0, **text))
    assert values == {"answered": "yes", "score": 1, **text}


async def test_a_remote_graph_returns_the_fields_of_the_output_schema_only(client: LangGraphClient) -> None:
    graph = RemoteGraph("private", client=client)
    assert await graph.ainvoke({"question": "why?"}) == {"answer": "WHY?"}


async def test_the_second_wire_has_the_fields_of_the_output_schema_only(client: LangGraphClient) -> None:
    async with client.threads.stream(new_id(), assistant_id="private") as thread:
        await thread.run.start(input=WHY)
        values = [snapshot async for snapshot in thread.values]
    assert values[-1] == {"answer": "WHY?"}


async def test_the_questions_that_remain_are_in_the_result_after_one_of_several_is_answered(
    client: LangGraphClient,
) -> None:
    thread = await create_thread(client)
    paused: Any = await client.runs.wait(thread, "questions", input={"log": []})
    ids = {each["value"]: each["id"] for each in paused["__interrupt__"]}
    assert len(ids) == 3
    left: Any = await client.runs.wait(thread, "questions", command={"resume": {ids["two"]: "2"}})
    assert {each["value"] for each in left["__interrupt__"]} == {"one", "three"}
    [run, _] = await client.runs.list(thread)
    joined: Any = await client.runs.join(thread, run["run_id"])
    assert {each["value"] for each in joined["__interrupt__"]} == {"one", "three"}
    answers = {ids["one"]: "1", ids["three"]: "3"}
    done: Any = await client.runs.wait(thread, "questions", command={"resume": answers})
    assert sorted(done["log"]) == ["1", "2", "3", "note"]


async def test_a_config_limits_how_many_tasks_run_at_once(client: LangGraphClient) -> None:
    config: Any = {"max_concurrency": 2}
    result: Any = await client.runs.wait(None, "concurrent", input={"log": []}, config=config)
    assert len(result["log"]) == 5
    assert max(result["log"]) == "2"


async def test_values_of_numpy_and_bytes_are_sent_as_langgraphs_server_does(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    result: Any = await client.runs.wait(thread, "values", input={"values": None})
    state: Any = await client.threads.get_state(thread)
    expected = {
        "array": [*range(2_000)],
        "matrix": [[1.0, 0.0], [0.0, 1.0]],
        "column": [[1, 2], [3, 4]],
        "int": 7,
        "float": 0.5,
        "flag": True,
        "missing": None,
        "text": "word",
        "bytes": base64.b64encode(b"\x00\xffpng").decode(),
        "bytearray": base64.b64encode(b"abc").decode(),
        "point": {"x": 1, "y": 2.5},
    }
    assert result["values"] == expected
    assert state["values"]["values"] == expected


async def test_a_node_sees_the_id_of_its_run(client: LangGraphClient) -> None:
    """Feedback and traces are found by it."""
    thread = await create_thread(client)
    result: Any = await client.runs.wait(thread, "ids", input={"ids": {}})
    [run] = await client.runs.list(thread)
    assert (result["ids"]["info"], result["ids"]["node"]["run_id"]) == (run["run_id"], run["run_id"])


@pytest.mark.slow
async def test_a_blocking_call_in_an_async_node_is_logged_with_graph_node_and_line(
    client: LangGraphClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Meanwhile the whole process stands still, so it must not go unnoticed."""
    result: Any = await client.runs.wait(None, "blocking", input={"log": []})
    assert result["log"] == ["blocked"]
    await asyncio.to_thread(until, lambda: "runs again after" in caplog.text, "the call's end is logged")
    [warning] = [one for one in caplog.messages if "blocks the event loop" in one]
    assert warning.startswith("node 'block_the_loop' of graph 'blocking'")
    assert "time.sleep(2)" in warning
    [record] = [one for one in caplog.records if "blocks the event loop" in one.getMessage()]
    fields = vars(record)
    assert (fields["graph"], bool(fields["run_id"]), bool(fields["thread_id"])) == ("blocking", True, True)


async def nested_events(client: LangGraphClient, mode: Any) -> list[Any]:
    thread = await create_thread(client)
    hello: Any = {"messages": [{"role": "user", "content": "hello"}]}
    return await collect(
        client.runs.stream(thread, "nested", input=hello, stream_mode=mode, stream_subgraphs=True)
    )


async def test_accumulated_messages_of_a_subgraph_are_named_as_by_langgraphs_server(
    client: LangGraphClient,
) -> None:
    names = [event.event for event in await nested_events(client, "messages")]
    assert set(names) == {"metadata", "messages/metadata", "messages/partial"}


async def test_the_metadata_of_events_has_the_namespace_of_their_own_graph(client: LangGraphClient) -> None:
    events = [event.data for event in await nested_events(client, "events") if event.event == "events"]
    assert "" not in [event["metadata"].get("checkpoint_ns") for event in events]


async def test_a_debug_event_names_the_checkpoint_of_a_tasks_subgraph(client: LangGraphClient) -> None:
    events = [event.data for event in await nested_events(client, "debug") if event.event == "debug"]
    tasks = [task for event in events for task in event["payload"].get("tasks", ())]
    [task] = [task for task in tasks if task["name"] == "child"]
    assert (task["checkpoint"]["checkpoint_ns"], "state" in task) == (f"child:{task['id']}", False)


async def test_an_assistant_has_the_name_of_its_graph_and_a_state_the_id_of_its_thread(
    client: LangGraphClient,
) -> None:
    assistants: Any = await client.assistants.search(graph_id="nested")
    assert assistants[0]["name"] == "a name of its own"
    thread = await create_thread(client)
    await client.runs.wait(thread, "ids", input={"ids": {}})
    state: Any = await client.threads.get_state(thread)
    assert state["metadata"]["thread_id"] == thread


@pytest.mark.parametrize("header", ["0", "-1"])
async def test_a_last_event_id_of_zero_asks_for_all_events(
    client: LangGraphClient, url: str, header: str
) -> None:
    thread = await create_thread(client)
    await client.runs.wait(thread, "ids", input={"ids": {}})
    [run] = await client.runs.list(thread)
    async with httpx.AsyncClient(base_url=url, headers={"Last-Event-ID": header}) as http:
        reply = await http.get(f"/threads/{thread}/runs/{run['run_id']}/stream")
    assert (reply.status_code, reply.text.startswith("event: metadata")) == (200, True)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"thread_id": "T"}, 422),
        ({"thread_id": "T", "run_ids": ["none"]}, 404),
        ({"status": "all"}, 404),
    ],
)
async def test_a_request_that_cancels_no_run_is_refused(
    client: LangGraphClient, url: str, body: dict[str, Any], status: int
) -> None:
    named = {"thread_id": await create_thread(client)} if "thread_id" in body else {}
    async with httpx.AsyncClient(base_url=url) as http:
        assert (await http.post("/runs/cancel", json=body | named)).status_code == status


@pytest.mark.parametrize(
    ("schedule", "next_run"),
    [("@daily", "T00:00:00"), ("@hourly", ":00:00"), ("0 9 * * * 30", "T09:00:30"), ("* * * * * *", None)],
)
async def test_a_schedule_may_be_a_name_or_have_a_second(
    url: str, schedule: str, next_run: str | None
) -> None:
    body = {"assistant_id": "ids", "schedule": schedule, "input": {"ids": {}}}
    async with httpx.AsyncClient(base_url=url) as http:
        reply = await http.post("/runs/crons", json=body)
    if next_run is None:
        assert (reply.status_code, "0 to 59" in reply.text) == (422, True)
    else:
        assert next_run in reply.json()["next_run_date"], reply.text
