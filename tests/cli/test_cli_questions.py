"""Questions of a user's own graph in the terminal: shown with all that an answer needs, and checked."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import RunCommand
from tests.doubles.command import assert_refused, command_in_process
from tests.doubles.wire_server import running_server

CODE = '''
"""A graph that bakes as many loaves as a person wants."""
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

COUNT = {"type": "integer", "minimum": 1}
SCHEMA = {"type": "object", "properties": {"count": COUNT}, "required": ["count"]}

class Order(MessagesState):
    count: int

def ask(state):
    answer = interrupt({
        "message": "How many loaves?",
        "effect": "They are baked at once",
        "choices": [1, 2, 3],
        "response_schema": SCHEMA,
    })
    return {"count": int(answer["count"])}

builder = StateGraph(Order)
builder.add_node("ask", ask)
builder.add_edge(START, "ask")
builder.add_edge("ask", END)
graph = builder.compile()
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "counted_bread.py").write_text(CODE)
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {"bread": "./counted_bread.py:graph"}}))
    return tmp_path


@pytest.fixture
def run_command(
    valkey_url: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[RunCommand]:
    with command_in_process(valkey_url, project, monkeypatch, capsys) as command:
        yield command


def start_order(run_command: RunCommand) -> str:
    """Return the thread of an order that waits for its answer."""
    return str(json.loads(run_command("run", "bread", "hello", "--json").out)["thread"])


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [('{"count": 0}', "0 is less than the minimum of 1"), ("nonsense", '"nonsense" is not of type "object"')],
)
def test_an_answer_that_does_not_fit_is_refused_and_the_question_still_waits(
    run_command: RunCommand, wrong: str, rule: str
) -> None:
    thread = start_order(run_command)
    assert_refused(run_command("questions", "answer", thread, wrong), rule, '"minimum": 1')
    assert_refused(run_command("run", "bread", "--id", thread, "--answer", wrong), rule)
    done = json.loads(run_command("questions", "answer", thread, '{"count": 2}', "--json").out)
    assert (done["values"]["count"], done["question"]) == (2, None)


def test_an_answer_over_the_wire_is_checked_as_one_of_the_inbox_is(valkey_url: str, project: Path) -> None:
    rule = "0 is less than the minimum of 1"
    with (
        running_server(valkey_url, None, config=project / "langgraph.json") as url,
        httpx.Client(base_url=url) as http,
    ):
        thread = http.post("/threads", json={}).json()["thread_id"]
        order = {"assistant_id": "bread", "input": {"messages": [{"role": "user", "content": "hello"}]}}
        http.post(f"/threads/{thread}/runs/wait", json=order).raise_for_status()
        [question] = http.get("/api/questions").json()["questions"]
        resume = {"assistant_id": "bread", "command": {"resume": {"count": 0}}}
        responses = {"interrupt_id": question["id"].partition(":")[0], "response": {"count": 0}}
        command = {"id": 1, "method": "input.respond", "params": {"namespace": [], **responses}}
        refusals = [
            http.post(f"/threads/{thread}/runs/wait", json=resume),
            http.post(f"/threads/{thread}/commands", json=command),
            http.post(f"/api/questions/{question['id']}/answer", json={"answer": {"count": 0}}),
        ]
        assert all(rule in refusal.text for refusal in refusals), [refusal.text for refusal in refusals]
        assert [refusal.status_code for refusal in refusals if refusal != refusals[1]] == [422, 422]
        assert len(http.get("/api/questions").json()["questions"]) == 1


def test_a_question_is_shown_with_its_effect_its_choices_and_the_shape_of_its_answer(
    run_command: RunCommand,
) -> None:
    question = run_command("run", "bread", "hello")
    thread = shlex.split(question.out.rstrip().splitlines()[-1])[-2]
    thread_view = run_command("threads", "show", thread)
    refusal = run_command("questions", "answer", thread)
    for output in (question.out, thread_view.out, refusal.err):
        for words in ("How many loaves?", "They are baked at once", "1, 2, 3", '{"count": 1}'):
            assert words in " ".join(output.split()), (words, output)
    assert question.out.rstrip().endswith(f"""{thread} '{{"count": 1}}'""")


def test_an_answer_with_a_message_answers_the_question_of_that_run(
    run_command: RunCommand,
) -> None:
    done = json.loads(run_command("run", "bread", "hello", "--answer", '{"count": 3}', "--json").out)
    assert (done["values"]["count"], done["question"]) == (3, None)
    assert done["values"]["messages"][0]["content"] == "hello"
    assert_refused(run_command("run", "bread", "--answer", "3"), "no question waits", "a message")
