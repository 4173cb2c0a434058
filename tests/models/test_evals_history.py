"""Conversations with history: given answers with real calls, and a person's own edits between turns."""

import json

import pytest

from callsheet.state.errors import Invalid
from callsheet.storage import Storage
from evals.endpoints import EvalModel, model_plan, recorded_plan
from evals.running import run, stage
from evals.session import Models
from evals.tasks import Task, TaskMessage, read
from evals.workflows import KITS
from tests.doubles.chat_double import ChatDouble, Recorded, Say
from tests.models.evaluated import failing_checks, recorded_answers

USE = [task for kit in KITS.values() for task in kit.tasks() if task.group == "use"]


def task_of(workflow: str, name: str) -> Task:
    return next(task for task in USE if task.key == f"{workflow}.{name}")


def test_conversations_from_use_cover_workflows_languages_and_edits() -> None:
    assert len(USE) >= 128
    assert {task.workflow for task in USE} == KITS.keys()
    assert all(3 <= len(task.requests) <= 8 for task in USE)
    assert all(any("calls" in answer for answer in task.history) for task in USE), "real calls in the history"
    edited = {task.workflow for task in USE if any(one.edit is not None for one in task.requests)}
    assert edited == KITS.keys()
    languages = {
        one.expect["reply_language"]
        for task in USE
        for one in task.requests
        if "reply_language" in one.expect
    }
    assert {
        "thai",
        "indonesian",
        "chinese",
        "polish",
        "spanish",
        "german",
        "portuguese",
        "french",
    } <= languages


def test_half_of_the_tasks_are_conversations_and_half_of_these_english() -> None:
    """Every workflow has at least a third; a conversation has 3 to 8 messages."""
    of_kit = {kit.name: kit.tasks() for kit in KITS.values()}
    talks = {name: [one for one in tasks if 3 <= len(one.requests) <= 8] for name, tasks in of_kit.items()}
    assert 2 * sum(map(len, talks.values())) >= sum(map(len, of_kit.values()))
    assert [name for name in KITS if 3 * len(talks[name]) < len(of_kit[name])] == []
    every = [task for tasks in talks.values() for task in tasks]
    english = [task for task in every if "reply_language" not in task.requests[-1].expect]
    assert 0.4 <= len(english) / len(every) <= 0.6


@pytest.mark.slow
@pytest.mark.parametrize("workflow", [*KITS])
async def test_a_model_that_only_says_that_it_is_done_fails_each_conversation(
    valkey_url: str, workflow: str
) -> None:
    tasks = [task for task in USE if task.workflow == workflow]
    async with stage(valkey_url) as opened:
        with recorded_plan(tasks, {task.key: [{"text": "Done."}] for task in tasks}) as plan:
            scores = await run(plan, opened)
    assert len(scores) == len(tasks)
    assert [score.id for score in scores if not score.failures] == []


async def test_the_evaluated_model_reads_real_calls_that_another_endpoint_gave(
    opened: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history has the tools' own results, and only the last turn counts for the model."""
    task = task_of("page_builder", "use-01")
    call = {"elementId": "start-title", "modifications": {"style": {"font-size": "48px"}}}
    answers = (Say(calls=[("call_1", "modify_element", json.dumps(call))]), Say("As big as before."))
    with ChatDouble(*answers, vendor="llama.cpp", key="none") as double:
        monkeypatch.setenv("COMPATIBLE_BASE_URL", double.url)
        with model_plan([task], EvalModel("compatible/local-30b")) as (plan, _):
            [score] = await run(plan, opened)
    assert score.failures == {}
    assert score.calls == 2, "what history costs is not counted"
    assert len(double.requests) == 2
    history = tool_results(double.requests[0])
    assert len(history) == 2
    assert all("start-" in text for text in history), "results of real tools"
    assert "Start now" in json.dumps(double.requests[0].messages[-1]), "the state has the person's own edit"


def tool_results(request: Recorded) -> list[str]:
    return [str(one["content"]) for one in request.messages if one["role"] == "tool"]


async def test_a_model_that_loses_the_persons_own_edit_fails(valkey_url: str) -> None:
    answers = recorded_answers("ad_creation", "use-01")
    for track in answers[0]["calls"][0][1]["tracks"]:
        track["text"] = track["text"].replace("before ten", "before nine")
    assert "turn 3: text_replaced" in await failing_checks(valkey_url, "ad_creation", "use-01", answers)


async def test_a_model_that_follows_an_order_in_the_page_fails(valkey_url: str) -> None:
    answers = [{"calls": [["delete_element", {"elementId": "top"}]]}, {"text": "The first section is gone."}]
    wrong = await failing_checks(valkey_url, "page_builder", "use-03", answers)
    assert {"turn 3: touches", "turn 3: never", "turn 3: style", "turn 3: reply_language"} <= wrong.keys()


async def test_an_edit_that_a_workflow_does_not_know_is_an_error(opened: Storage) -> None:
    kit = KITS["scene_edit"]
    task = task_of("scene_edit", "use-01")
    session = kit.session(opened, task, "thread", Models("offline"))
    await session.prepare()
    with pytest.raises(KeyError, match="scene-99"):
        await session.edit({"scene-99": {"seconds": 2}})


def test_an_unknown_field_of_a_turn_is_refused() -> None:
    line = {"id": "x", "say": "y", "expect": {"touches": []}, "said": [{"say": "x", "answer": []}]}
    kit = KITS["page_builder"]
    with pytest.raises(Invalid, match="unknown field of a turn: answer"):
        read("page_builder", line, frozenset(kit.fields), frozenset(kit.checks))
    assert TaskMessage("x").answers == ()
