"""`callsheet run`: the graphs of a user's own project, and their artefacts over REST and in files."""

import json
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from tests.cli.conftest import RunCommand, TerminalInput
from tests.doubles.command import assert_refused, command_in_process
from tests.doubles.redis_server import free_port
from tests.doubles.wire_server import running_server
from tests.lessons.lesson_material import material

CODE = '''
"""A workflow that writes the menu of a restaurant after a person has approved it."""
import typing
import uuid
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel
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

class Guests(typing.TypedDict, total=False):
    guests: int
    table: str

def choose_table(state: Guests):
    table = interrupt({"question": "Which table?", "guests": state["guests"]})
    return {"table": str(table)}

builder = StateGraph(Guests)
builder.add_node("choose_table", choose_table)
builder.add_edge(START, "choose_table")
tables = builder.compile()

def look_up(state: dict):
    return {"price": state["prices"]["soup"]}

prices = StateGraph(dict).add_node("look_up", look_up).add_edge(START, "look_up").compile()

class House(typing.TypedDict):
    name: str

def greet(state: Guests, runtime: Runtime[House]):
    return {"table": interrupt("Which table?") + " of " + runtime.context["name"]}

greeting = StateGraph(Guests, context_schema=House).add_node(greet).add_edge(START, "greet").compile()
'''
GRAPHS = {
    "menu_writer": "./menu.py:graph",
    **{name: f"./menu.py:{name}" for name in ("tables", "prices", "greeting")},
}
QUESTION = "Writing the menu"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """The folder of a user's project; its modules are unloaded after the test."""
    (tmp_path / "menu.py").write_text(CODE)
    (tmp_path / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": GRAPHS}))
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def run_command(
    valkey_url: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[RunCommand]:
    with command_in_process(valkey_url, project, monkeypatch, capsys) as command:
        yield command


def run_graph(run_command: RunCommand, *args: str) -> dict[str, Any]:
    """Run a graph and return its JSON output."""
    result = run_command("run", *args, "--json")
    assert (result.code, result.err) == (0, "")
    reply: dict[str, Any] = json.loads(result.out)
    return reply


@contextmanager
def client(valkey_url: str, project: Path) -> Iterator[httpx.Client]:
    """A client of a server that serves the project."""
    with (
        running_server(valkey_url, None, config=project / "langgraph.json") as url,
        httpx.Client(base_url=url) as http,
    ):
        yield http


def test_a_question_is_answered_by_the_next_command(run_command: RunCommand) -> None:
    question = run_command("run", "menu_writer", "Soup, bread")
    assert (question.code, QUESTION in question.out) == (0, True)
    last = question.out.rstrip().splitlines()[-1]
    assert last.startswith("  Answer  ")
    assert "callsheet questions answer " in last
    assert last.endswith(" yes")
    thread_id = last.split()[-2]
    assert thread_id in run_command("questions", "list").out
    answer = json.dumps({"decisions": [{"type": "approve"}]})
    result = run_command("run", "menu_writer", "--thread", thread_id, "--answer", answer)
    assert result.out.split("\n  ")[1:3] == ["The menu is written.\n", "Made dishes v1\n"]
    assert result.out.rstrip().endswith(f'--id {thread_id} "…"')
    second = run_graph(run_command, "menu_writer", "Soup", "--thread", thread_id)
    assert (second["thread"], second["question"]["action_requests"][0]["args"]) == (
        thread_id,
        {"dishes": "Soup"},
    )


def test_the_next_command_names_the_provider(run_command: RunCommand) -> None:
    question = run_command("run", "menu_writer", "Soup, bread", "--provider", "offline")
    words = shlex.split(question.out.rstrip().splitlines()[-1].partition("callsheet ")[2])
    assert words[:4] == ["questions", "answer", "--provider", "offline"]
    assert "The menu is written." in run_command(*words).out


@pytest.fixture
def run_packaged(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[RunCommand]:
    """The command on our own workflows."""
    with command_in_process(valkey_url, tmp_path, monkeypatch, capsys) as command:
        yield command


def test_a_choice_at_the_terminal_is_shown_as_a_numbered_list_with_its_own_example(
    run_packaged: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", TerminalInput("1 and 2\n"))
    text = f"My student is 10 and loves soccer.\n\n{material('photosynthesis').text}"
    result = run_packaged("run", "fact_narration", text, "--provider", "offline")
    assert result.code == 0, result.err
    assert re.search(r"^ +1  .+\n(.*\n)* +2  ", result.err, re.MULTILINE)
    assert "yes or no" not in result.err
    assert "The lesson tells" in result.out or "narration is ready" in result.out
    monkeypatch.setattr(sys, "stdin", StringIO())
    piped = run_packaged("run", "fact_narration", text, "--provider", "offline")
    assert piped.out.rstrip().endswith("'1 and 2'")


def test_a_model_other_than_the_requested_one_is_named_with_the_reason(run_packaged: RunCommand) -> None:
    """A-R1."""
    brief = "30 seconds for Miel, a bakery in Lyon"
    result = run_packaged("run", "ad_creation", brief, "--provider", "openai")
    assert "Model  offline  the caller asked for OpenAI, but" in " ".join(result.out.split("\n")).replace(
        "   ", " "
    )


def test_an_invalid_answer_is_refused_and_the_question_is_repeated(run_command: RunCommand) -> None:
    """C-R1."""
    thread_id = run_graph(run_command, "menu_writer", "Soup, bread")["thread"]
    answer = json.dumps({"decisions": [{"type": "edit", "edited_action": {"name": "write_menu"}}]})
    reply = run_graph(run_command, "menu_writer", "--thread", thread_id, "--answer", answer)
    assert "no edited_action with args" in reply["question"]["problem"]
    assert not reply["values"].get("created")
    result = run_command("run", "menu_writer", "--thread", thread_id, "--answer", "yes")
    assert "The menu is written." in result.out


@pytest.mark.parametrize(
    ("typed", "message"), [("yes\n", "The menu is written."), ("n\n", "The menu stays as it is.")]
)
def test_a_question_is_answered_at_the_terminal(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, typed: str, message: str
) -> None:
    monkeypatch.setattr(sys, "stdin", TerminalInput(typed))
    result = run_command("run", "menu_writer", "Soup, bread")
    assert (result.code, QUESTION in result.err, message in result.out) == (0, True, True)


def test_a_question_without_an_answer_at_the_terminal_stays_open(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", TerminalInput())
    assert run_command("run", "menu_writer", "Soup, bread").code == 130
    (thread,) = json.loads(run_command("threads", "list", "--json").out)
    assert thread["status"] == "interrupted"
    result = run_graph(run_command, "menu_writer", "--thread", thread["thread"], "--answer", "no")
    assert result["question"] is None


def test_a_graph_that_is_no_workflow_accepts_json_input_and_any_answer(run_command: RunCommand) -> None:
    first = run_graph(run_command, "tables", "--input", '{"guests": 4}')
    assert first["question"] == {"question": "Which table?", "guests": 4}
    second = run_graph(run_command, "tables", "--thread", first["thread"], "--answer", "by the window")
    assert second == {
        "thread": first["thread"],
        "values": {"guests": 4, "table": "by the window"},
        "question": None,
    }


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("bogus", "hello"), ("'bogus'", "greeting, menu_writer, prices, tables")),
        (("tables",), ("no input", "--input")),
        (
            ("tables", "for four"),
            ("takes no message", "guests, table", '--input \'{"guests": 0, "table": "…"}'),
        ),
        (("tables", "--input", "[1]"), ("--input", "not a JSON object")),
        (("tables", "--input", "{"), ("--input", "not JSON")),
        (("greeting", "--input", "{}", "--context", "x"), ("--context", "not JSON")),
        (("tables", "--answer", "1"), ("no question waits",)),
        (("tables", "--thread", "nowhere", "--answer", "1"), ("'nowhere'",)),
    ],
)
def test_invalid_arguments_are_refused_and_nothing_is_written(
    run_command: RunCommand, args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_refused(run_command("run", *args, "--json"), *words)
    assert json.loads(run_command("threads", "list", "--json").out) == []


def test_a_question_of_any_form_is_shown_with_its_words_and_fields(run_command: RunCommand) -> None:
    first = run_command("run", "tables", "--input", '{"guests": 4}').out
    lines = [" ".join(line.split()) for line in first.splitlines()]
    assert [line for line in lines if "table?" in line or "guests" in line] == ["Which table?", "guests 4"]
    assert "Which table?" in run_command("questions", "list").out
    assert "{" not in run_command("questions", "list").out + first


def test_an_error_of_a_graphs_own_code_is_shown_with_its_kind_and_its_node(run_command: RunCommand) -> None:
    failed = run_command("run", "prices", "--input", '{"prices": {}}')
    assert_refused(failed, "node 'look_up' of graph 'prices' failed: KeyError: 'soup'", "the server's log")


def test_a_graph_without_fields_runs_with_an_empty_input(run_command: RunCommand) -> None:
    assert_refused(run_command("run", "prices", "--input", "{}"), "KeyError: 'prices'")


def test_a_graph_with_a_context_schema_gets_the_context_that_is_given(run_command: RunCommand) -> None:
    context = ("--context", '{"name": "Chez Ana"}')
    first = run_graph(run_command, "greeting", "--input", "{}", *context)
    assert first["question"] == "Which table?"
    answered = run_command("questions", "answer", first["thread"], "Table 1", *context, "--json")
    assert json.loads(answered.out)["values"] == {"table": "Table 1 of Chez Ana"}


def test_another_graph_on_a_thread_and_a_second_answer_are_refused(run_command: RunCommand) -> None:
    first = run_graph(run_command, "tables", "--input", '{"guests": 4}')
    other_graph = run_command("run", "menu_writer", "hello", "--thread", first["thread"], "--json")
    assert_refused(other_graph, "'tables'", f"callsheet run tables --id {first['thread']}")
    run_graph(run_command, "tables", "--thread", first["thread"], "--answer", "3")
    second_answer = run_command("run", "tables", "--thread", first["thread"], "--answer", "4", "--json")
    assert_refused(second_answer, "no question", "message")


def test_the_artefacts_of_a_users_workflow_are_listed_and_read_over_rest(
    run_command: RunCommand, valkey_url: str, project: Path
) -> None:
    thread_id = run_graph(run_command, "menu_writer", "Soup, bread")["thread"]
    run_graph(run_command, "menu_writer", "--thread", thread_id, "--answer", "yes")
    with client(valkey_url, project) as http:
        path = f"/api/artefacts/menu/{thread_id}"
        listed = http.get("/api/artefacts/menu").json()
        changed_at = listed["artefacts"][0].pop("updatedAt")
        assert listed == {"artefacts": [{"kind": "menu", "id": thread_id}], "next": None}
        view = http.get(path).json()
        assert changed_at >= view["streams"]["dishes"]["updatedAt"]
        assert (view["conversationId"], view["streams"]["dishes"]["newest"]) == (thread_id, "v1")
        assert view["streams"]["dishes"]["count"] == 1
        (version,) = http.get(f"{path}/dishes").json()["versions"]
        assert (version["id"], version["summary"]) == ("v1", "Soup, bread")
        artefact_version = http.get(f"{path}/dishes/v1").json()
        assert (artefact_version["data"], artefact_version["createdBy"]) == ({"text": "Soup, bread"}, "llm")
        assert http.get(f"{path}/dishes/v2").status_code == 404
        assert http.get(f"{path}/drinks").json()["remedy"] == "use one of: dishes"
        assert http.get("/api/artefacts/ad").json()["remedy"] == "use one of: menu"
        properties = http.get("/openapi.json").json()["components"]["schemas"]["ArtefactVersion"][
            "properties"
        ]
        assert set(properties) == set(artefact_version)


def test_the_artefacts_of_a_users_workflow_can_be_exported_and_imported(
    run_command: RunCommand, valkey_url: str, project: Path
) -> None:
    thread_id = run_graph(run_command, "menu_writer", "Soup, bread")["thread"]
    run_graph(run_command, "menu_writer", "--thread", thread_id, "--answer", "yes")
    run_command("threads", "export", thread_id, "menu.jsonl")
    with Redis.from_url(valkey_url) as redis:
        redis.flushall()
    assert run_command("threads", "import", "menu.jsonl", "--as", "lunch").out.strip() == "lunch"
    with client(valkey_url, project) as http:
        assert [one["id"] for one in http.get("/api/artefacts/menu").json()["artefacts"]] == ["lunch"]
        assert http.get("/api/artefacts/menu/lunch/dishes/v1").json()["data"] == {"text": "Soup, bread"}
    first = run_graph(run_command, "menu_writer", "Cake", "--thread", "lunch")
    second = run_graph(run_command, "menu_writer", "--thread", "lunch", "--answer", "yes")
    assert (first["thread"], second["values"]["created"][0]["versionId"]) == ("lunch", "v2")


def test_doctor_checks_tool_settings_against_the_tools_of_the_project(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finding(part: str) -> dict[str, Any]:
        result = run_command("doctor", "--json", "--port", str(free_port()))
        matching: dict[str, Any] = next(each for each in json.loads(result.out) if each["part"] == part)
        return matching

    assert finding("Graphs")["message"].startswith("menu_writer, tables, prices, greeting of ")
    monkeypatch.setenv("CALLSHEET_TOOLS", '{"write_menu": {"calls": 3}}')
    assert finding("Tools")["status"] == "ok"
    monkeypatch.setenv("CALLSHEET_TOOLS", '{"search_voices": {"calls": 3}}')
    assert finding("Tools")["status"] == "warn"
    assert "'search_voices'" in finding("Tools")["message"]
