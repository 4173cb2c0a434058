"""`callsheet run`: a user's own project in the terminal, and its artefacts over REST and in files."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from tests.doubles.command import Finished, assert_refused, command_in_process
from tests.doubles.redis_server import free_port
from tests.doubles.wire_server import running_server

Command = Callable[..., Finished]
CODE = '''
"""A workflow that writes the menu of a restaurant after a person has approved it."""
import uuid
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict
from callsheet.nodes.approval import approval_node
from callsheet.nodes.question import decision_plan
from callsheet.nodes.tool_executor import tool_executor_node
from callsheet.nodes.workflow import ArtefactSpec, WorkflowSpec
from callsheet.state.context import Context
from callsheet.state.workflow import Workflow
from callsheet.tools.registry import tool

class Dishes(BaseModel):
    dishes: str

@tool(schema=Dishes, display="Writing the menu", writes=("dishes",), safety="potentially_destructive")
async def write_menu(args, call):
    """Write the menu as a new version."""
    return await call.write("dishes", {"text": args.dishes}, result={"status": "draft"})

class Menu(WorkflowSpec):
    name = "menu_writer"
    title = "menus"
    artefact = ArtefactSpec("menu", ("dishes",))

    def build(self):
        def plan(state: Workflow):
            dishes = state["messages"][-1].text
            planned = decision_plan(self, uuid.uuid4().hex, "", [("write_menu", {"dishes": dishes})])
            return {**planned, "messages": [AIMessage(**planned["messages"][0])]}

        def answer(state: Workflow):
            text = "The menu is written." if state["created"] else "The menu stays as it is."
            return {"messages": [AIMessage(text)]}

        builder = StateGraph(self.state, context_schema=Context)
        builder.add_node("plan", plan)
        builder.add_node("approval", approval_node(self))
        builder.add_node("tool_executor", tool_executor_node(self))
        builder.add_node("answer", answer)
        builder.add_edge(START, "plan")
        builder.add_edge("plan", "approval")
        builder.add_edge("approval", "tool_executor")
        builder.add_edge("tool_executor", "answer")
        builder.add_edge("answer", END)
        return builder

graph = Menu({"write_menu": write_menu}).graph

class Guests(TypedDict, total=False):
    guests: int
    table: str

def choose_table(state: Guests):
    table = interrupt({"question": "Which table?", "guests": state["guests"]})
    return {"table": str(table)}

builder = StateGraph(Guests)
builder.add_node("choose_table", choose_table)
builder.add_edge(START, "choose_table")
tables = builder.compile()
'''
GRAPHS = {"menu_writer": "./menu.py:graph", "tables": "./menu.py:tables"}
QUESTION = "Writing the menu"


class Terminal(StringIO):
    """Standard input of a person."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """The folder of a user's project; its modules are forgotten at the end."""
    (tmp_path / "menu.py").write_text(CODE)
    (tmp_path / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": GRAPHS}))
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def command(
    valkey_url: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    return command_in_process(valkey_url, project, monkeypatch, capsys)


def run(command: Command, *args: str) -> dict[str, Any]:
    """Run a graph and return its JSON output."""
    done = command("run", *args, "--json")
    assert (done.code, done.err) == (0, "")
    reply: dict[str, Any] = json.loads(done.out)
    return reply


@contextmanager
def client(valkey_url: str, project: Path) -> Iterator[httpx.Client]:
    """A client of a server that serves the project."""
    with (
        running_server(valkey_url, None, config=project / "langgraph.json") as url,
        httpx.Client(base_url=url) as http,
    ):
        yield http


def test_a_question_is_answered_by_the_next_command(command: Command) -> None:
    asked = command("run", "menu_writer", "Soup, bread")
    assert (asked.code, QUESTION in asked.out) == (0, True)
    last = asked.out.splitlines()[-1]
    assert last.startswith("Continue with: ")
    assert "callsheet run menu_writer --thread " in last
    assert last.endswith(" --answer yes")
    thread = last.split("--thread ")[1].split()[0]
    answer = json.dumps({"decisions": [{"type": "approve"}]})
    done = command("run", "menu_writer", "--thread", thread, "--answer", answer)
    assert done.out.splitlines()[:2] == ["The menu is written.", "Made dishes v1"]
    assert done.out.splitlines()[-1].endswith(f'--thread {thread} "…"')
    again = run(command, "menu_writer", "Soup", "--thread", thread)
    assert (again["thread"], again["question"]["action_requests"][0]["args"]) == (thread, {"dishes": "Soup"})


def test_another_model_than_the_one_asked_for_is_told_with_its_reason(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A-R1."""
    ours = command_in_process(valkey_url, tmp_path, monkeypatch, capsys)
    brief = "30 seconds for Miel, a bakery in Lyon"
    done = ours("run", "ad_creation", brief, "--provider", "openai")
    assert "Model: offline, because the caller asked for OpenAI, but" in done.err
    assert "Model:" not in ours("run", "ad_creation", brief, "--provider", "Offline").err


def test_an_invalid_answer_is_refused_and_the_question_asked_again(command: Command) -> None:
    """C-R1."""
    thread = run(command, "menu_writer", "Soup, bread")["thread"]
    answer = json.dumps({"decisions": [{"type": "edit", "edited_action": {"name": "write_menu"}}]})
    asked = run(command, "menu_writer", "--thread", thread, "--answer", answer)
    assert "no edited_action with args" in asked["question"]["problem"]
    assert not asked["values"].get("created")
    done = command("run", "menu_writer", "--thread", thread, "--answer", "yes")
    assert done.out.splitlines()[:2] == ["The menu is written.", "Made dishes v1"]


@pytest.mark.parametrize(
    ("typed", "message"), [("yes\n", "The menu is written."), ("n\n", "The menu stays as it is.")]
)
def test_a_person_at_the_terminal_is_asked(
    command: Command, monkeypatch: pytest.MonkeyPatch, typed: str, message: str
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    done = command("run", "menu_writer", "Soup, bread")
    assert (done.code, QUESTION in done.err, message in done.out) == (0, True, True)


def test_a_person_who_leaves_finds_the_question_again(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert command("run", "menu_writer", "Soup, bread").code == 130
    (thread,) = json.loads(command("threads", "list", "--json").out)
    assert thread["status"] == "interrupted"
    done = run(command, "menu_writer", "--thread", thread["id"], "--answer", "no")
    assert done["question"] is None


def test_a_graph_without_a_workflow_takes_input_and_any_answer(command: Command) -> None:
    asked = run(command, "tables", "--input", '{"guests": 4}')
    assert asked["question"] == {"question": "Which table?", "guests": 4}
    done = run(command, "tables", "--thread", asked["thread"], "--answer", "by the window")
    assert done == {
        "thread": asked["thread"],
        "values": {"guests": 4, "table": "by the window"},
        "question": None,
    }


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("bogus", "hello"), ("'bogus'", "menu_writer, tables")),
        (("tables",), ("no input", "--input")),
        (("tables", "--input", "[1]"), ("--input", "not a JSON object")),
        (("tables", "--input", "{"), ("--input", "not JSON")),
        (("tables", "--thread", "nowhere", "--answer", "1"), ("'nowhere'",)),
        (("menu_writer", "hello", "--provider", "acme"), ("'acme'",)),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_written(
    command: Command, valkey_url: str, args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_refused(command("run", *args, "--json"), *words)
    with Redis.from_url(valkey_url) as redis:
        assert redis.dbsize() == 0


def test_a_thread_keeps_its_graph_and_its_question(command: Command) -> None:
    asked = run(command, "tables", "--input", '{"guests": 4}')
    wrong = command("run", "menu_writer", "hello", "--thread", asked["thread"], "--json")
    assert_refused(wrong, "'tables'", f"callsheet run tables --thread {asked['thread']}")
    run(command, "tables", "--thread", asked["thread"], "--answer", "3")
    late = command("run", "tables", "--thread", asked["thread"], "--answer", "4", "--json")
    assert_refused(late, "no question", "message")


def test_the_artefacts_of_a_users_workflow_are_listed_and_read_over_rest(
    command: Command, valkey_url: str, project: Path
) -> None:
    thread = run(command, "menu_writer", "Soup, bread")["thread"]
    run(command, "menu_writer", "--thread", thread, "--answer", "yes")
    with client(valkey_url, project) as http:
        path = f"/api/artefacts/menu/{thread}"
        assert http.get("/api/artefacts/menu").json() == {
            "artefacts": [{"kind": "menu", "id": thread}],
            "next": None,
        }
        view = http.get(path).json()
        assert (view["conversationId"], view["streams"]["dishes"]["newest"]) == (thread, "v1")
        assert view["streams"]["dishes"]["count"] == 1
        (version,) = http.get(f"{path}/dishes").json()["versions"]
        assert (version["id"], version["summary"]) == ("v1", "Soup, bread")
        read = http.get(f"{path}/dishes/v1").json()
        assert (read["data"], read["createdBy"]) == ({"text": "Soup, bread"}, "llm")
        assert http.get(f"{path}/dishes/v2").status_code == 404
        assert http.get(f"{path}/drinks").json()["remedy"] == "use one of: dishes"
        assert http.get("/api/artefacts/ad").json()["remedy"] == "use one of: menu"
        properties = http.get("/openapi.json").json()["components"]["schemas"]["ArtefactVersion"][
            "properties"
        ]
        assert set(properties) == set(read)


def test_the_artefacts_of_a_users_workflow_move_in_a_file(
    command: Command, valkey_url: str, project: Path
) -> None:
    thread = run(command, "menu_writer", "Soup, bread")["thread"]
    run(command, "menu_writer", "--thread", thread, "--answer", "yes")
    command("threads", "export", thread, "menu.jsonl")
    with Redis.from_url(valkey_url) as redis:
        redis.flushall()
    assert command("threads", "import", "menu.jsonl", "--as", "lunch").out.strip() == "lunch"
    with client(valkey_url, project) as http:
        assert http.get("/api/artefacts/menu").json()["artefacts"] == [{"kind": "menu", "id": "lunch"}]
        assert http.get("/api/artefacts/menu/lunch/dishes/v1").json()["data"] == {"text": "Soup, bread"}
    again = run(command, "menu_writer", "Cake", "--thread", "lunch")
    done = run(command, "menu_writer", "--thread", "lunch", "--answer", "yes")
    assert (again["thread"], done["values"]["created"][0]["versionId"]) == ("lunch", "v2")


def test_doctor_knows_the_tools_of_a_users_workflow(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finding(part: str) -> dict[str, Any]:
        done = command("doctor", "--json", "--port", str(free_port()))
        found: dict[str, Any] = next(one for one in json.loads(done.out) if one["part"] == part)
        return found

    assert finding("Graphs")["message"].startswith("menu_writer, tables of ")
    monkeypatch.setenv("CALLSHEET_TOOLS", '{"write_menu": {"calls": 3}}')
    assert finding("Tools")["status"] == "ok"
    monkeypatch.setenv("CALLSHEET_TOOLS", '{"search_voices": {"calls": 3}}')
    assert finding("Tools")["status"] == "warn"
    assert "'search_voices'" in finding("Tools")["message"]
