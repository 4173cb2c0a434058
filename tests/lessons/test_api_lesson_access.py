"""Who may have a lesson, on which server, and what is said when nobody foresaw it (B30, B31, B36, B-R6)."""

from typing import Any

import httpx
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel

from callsheet.graphs import fact_narration
from callsheet.state.lessons.workflow import LessonState
from callsheet.storage import connect
from tests.doubles.auth_cases import create_key, no_secret_in_log  # noqa: F401 -- used by every test
from tests.doubles.wire_server import running_server
from tests.lessons.lesson_client import NARRATION, SESSION, SOURCE, TOOLS, LessonClient, ok, user
from tests.lessons.lesson_material import material

GRAPHS = {"fact_narration": fact_narration.graph}
TEXT = material("photosynthesis").text
EVERYTHING: tuple[tuple[str, str, Any], ...] = (
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


async def test_what_was_answered_is_there_for_another_server(redis: str) -> None:
    """B43, B50, B-R6: all of it is written before the reply, and the choice is made elsewhere."""
    with running_server(redis, GRAPHS) as here, running_server(redis, GRAPHS) as there:
        async with httpx.AsyncClient(base_url=here, timeout=60) as one:
            teacher = LessonClient(one)
            found = await teacher.send("My student is 10 and loves soccer.\n\n" + TEXT)
        async with httpx.AsyncClient(base_url=there, timeout=60) as other:
            moved = LessonClient(other, teacher.session_id)
            seen = await moved.get_session()
            assert (seen["facts"], seen["interrupt"]) == (found["facts"], found["interrupt"])
            told = await moved.choose_facts(*[fact["id"] for fact in found["facts"][:3]])
            assert (told["status"], len(told["confirmedFacts"])) == ("script_generated", 3)


async def test_a_session_is_its_owners_alone(redis: str) -> None:
    """B30, B36, B-R5: without a key 401; another's session is 404, and no new one begins in its stead."""
    async with connect(redis) as storage:
        alice, bob = await create_key(storage, "alice"), await create_key(storage, "bob")
    with running_server(redis, GRAPHS, auth=("keys",)) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60, headers={"X-Api-Key": alice}) as http:
            teacher = LessonClient(http)
            await teacher.create_narration()
            before = await teacher.get_session()
            await refused(url, teacher.session_header, 401)
            await refused(url, {"X-Api-Key": bob, **teacher.session_header}, 404)
            assert await teacher.get_session() == before


async def refused(url: str, headers: dict[str, str], status: int) -> None:
    """Ask for everything of a session and be refused."""
    async with httpx.AsyncClient(base_url=url, timeout=60, headers=headers) as stranger:
        for method, path, body in EVERYTHING:
            reply = await stranger.request(method, path, json=body)
            assert reply.status_code == status, (method, path, reply.text)
            assert reply.json()["error"]
            assert "X-Session-Id" not in reply.headers


def failing() -> Pregel[Any, Any]:
    """A graph of this name whose model fails as nobody foresaw."""

    def planner(state: LessonState) -> dict[str, Any]:
        raise RuntimeError("the cellar key is under the mat")

    builder = StateGraph(LessonState)
    builder.add_node("planner", planner)
    builder.add_edge(START, "planner")
    return builder.compile(name="fact_narration")


async def test_what_nobody_foresaw_is_said_in_the_words_of_lessons(redis: str) -> None:
    """B31."""
    with running_server(redis, {"fact_narration": failing()}) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            reply = await http.post(TOOLS, json={"messages": user("Hello!"), "provider": "offline"})
    assert reply.status_code == 500
    told = reply.json()
    assert told["error"] == "Failed to process request"
    assert told["message"]
    assert told["id"]


async def test_the_schools_subject_is_asked_for_and_not_assumed(redis: str) -> None:
    """B-R2, B-R12: either endpoint; general unless one is named, and it stays."""
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
