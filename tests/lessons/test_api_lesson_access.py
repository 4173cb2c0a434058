"""Access to lessons: owners, several servers, and unexpected errors (B30, B31, B36, B-R6)."""

from typing import Any

import httpx
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel

from callsheet.graphs import fact_narration
from callsheet.state.lessons.lesson import LessonState
from callsheet.storage import connect
from tests.doubles.auth_cases import create_key, no_secret_in_log  # noqa: F401 -- used by every test
from tests.doubles.wire_server import running_server
from tests.lessons.lesson_client import NARRATION, SESSION, SOURCE, TOOLS, LessonClient, ok, user
from tests.lessons.lesson_material import material

GRAPHS = {"fact_narration": fact_narration.graph}
TEXT = material("photosynthesis").text
REQUESTS: tuple[tuple[str, str, Any], ...] = (
    ("POST", TOOLS, {"messages": user("Hello!")}),
    ("POST", TOOLS, {"messages": [], "selectedFacts": [1]}),
    ("GET", SESSION, None),
    ("DELETE", SESSION, None),
    ("PATCH", SESSION, {"status": "completed"}),
    ("POST", SOURCE, {"text": TEXT}),
    ("GET", NARRATION, None),
    ("PATCH", NARRATION, {"segments": [{"id": "hook"}]}),
    ("GET", f"{SESSION}/assets", None),
    ("POST", f"{SESSION}/assets/files?fileName=leaf.png", {}),
    ("GET", f"{SESSION}/assets/1/file", None),
    ("PATCH", SESSION, {"childAge": "9"}),
    ("GET", f"{SESSION}/analytics", None),
)


async def test_a_choice_is_answered_at_another_server_than_the_question_came_from(redis: str) -> None:
    """B43, B50, B-R6: everything is written before the reply."""
    with running_server(redis, GRAPHS) as first_url, running_server(redis, GRAPHS) as second_url:
        async with httpx.AsyncClient(base_url=first_url, timeout=60) as http:
            teacher = LessonClient(http)
            reply = await teacher.send("My student is 10 and loves soccer.\n\n" + TEXT)
        async with httpx.AsyncClient(base_url=second_url, timeout=60) as http:
            moved = LessonClient(http, teacher.session_id)
            session = await moved.get_session()
            assert (session["facts"], session["interrupt"]) == (reply["facts"], reply["interrupt"])
            narrated = await moved.choose_facts(*[fact["id"] for fact in reply["facts"][:3]])
            assert (narrated["status"], len(narrated["confirmedFacts"])) == ("script_generated", 3)


async def test_a_session_of_another_owner_is_404_and_401_without_a_key(redis: str) -> None:
    """B30, B36, B-R5: no new session begins instead."""
    async with connect(redis) as storage:
        alice, bob = await create_key(storage, "alice"), await create_key(storage, "bob")
    with running_server(redis, GRAPHS, auth=("keys",)) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60, headers={"X-Api-Key": alice}) as http:
            teacher = LessonClient(http)
            await teacher.create_narration()
            before = await teacher.get_session()
            await assert_all_refused(url, teacher.session_header, 401)
            await assert_all_refused(url, {"X-Api-Key": bob, **teacher.session_header}, 404)
            assert await teacher.get_session() == before


async def assert_all_refused(url: str, headers: dict[str, str], status: int) -> None:
    """Send every request to a session, and expect each to be refused with this status."""
    async with httpx.AsyncClient(base_url=url, timeout=60, headers=headers) as http:
        for method, path, body in REQUESTS:
            reply = await http.request(method, path, json=body)
            assert reply.status_code == status, (method, path, reply.text)
            assert reply.json()["error"]
            assert "X-Session-Id" not in reply.headers


def failing_graph() -> Pregel[Any, Any]:
    """A graph of this name whose planner raises an unexpected error."""

    def planner(state: LessonState) -> dict[str, Any]:
        raise RuntimeError("the cellar key is under the mat")

    builder = StateGraph(LessonState)
    builder.add_node("planner", planner)
    builder.add_edge(START, "planner")
    return builder.compile(name="fact_narration")


async def test_an_unexpected_error_is_a_500_with_the_error_fields_of_lessons(redis: str) -> None:
    """B31."""
    with running_server(redis, {"fact_narration": failing_graph()}) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            reply = await http.post(TOOLS, json={"messages": user("Hello!"), "provider": "offline"})
    assert reply.status_code == 500
    body = reply.json()
    assert body["error"] == "Failed to process request"
    assert body["message"]
    assert body["id"]


async def test_the_subject_of_a_lesson_is_stored_only_where_the_request_names_it(redis: str) -> None:
    """B-R2, B-R12: at either endpoint, for later requests too; without one the subject is general."""
    with running_server(redis, GRAPHS) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            teacher = LessonClient(http)
            ok(await teacher.post("/api/agent-create", messages=user("Hello!"), subject="biology"))
            await teacher.send("Thank you!")
            state = ok(await http.get(f"/threads/{teacher.session_id}/state"))
            assert state["values"]["subject"] == "biology"
            other = LessonClient(http)
            await other.send("Hello!")
            assert "subject" not in ok(await http.get(f"/threads/{other.session_id}/state"))["values"]
