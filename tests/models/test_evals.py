"""The evaluation itself: strict tasks, cached and recorded answers, and a judge."""

import json
from pathlib import Path
from typing import Any

import pytest

from callsheet.state.errors import Invalid
from callsheet.storage import Storage
from evals import recordings, reporting
from evals.__main__ import main
from evals.endpoints import EvalModel, address, model_plan, proxy_for
from evals.recordings import RecordedEndpoint
from evals.reporting import Report
from evals.running import EvalPlan, Score, environment, run
from evals.tasks import EVALS_FOLDER, Task, read
from evals.turns import COMMON
from evals.wire import message_of
from evals.workflows import KITS
from tests.doubles.chat_double import ChatDouble, Fail, Say
from tests.models.evaluated import failed_tasks, recorded_answers

EDIT = {"elementId": "hero-text", "modifications": {"content": "Roasted every Tuesday in Seattle."}}
ANSWERS = (Say(calls=[("call_1", "modify_element", json.dumps(EDIT))]), Say("It says Seattle now."))


def page_task(name: str = "text-02") -> Task:
    return next(task for task in KITS["page_builder"].tasks() if task.id == name)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch):
    """A server like llama.cpp's, which the environment names."""
    with ChatDouble(*ANSWERS, vendor="llama.cpp", key="none") as double:
        monkeypatch.setenv("COMPATIBLE_BASE_URL", double.url)
        monkeypatch.setenv("COMPATIBLE_MAX_RETRIES", "0")
        yield double


async def scores(opened: Storage, chosen: EvalModel, repeats: int = 1) -> list[Score]:
    """Return the scores of one task against the server."""
    with model_plan([page_task()], chosen) as (plan, wire):
        assert wire
        results = []
        for number in range(1, repeats + 1):
            wire.repeat = number
            # A run has a server of its own.
            await opened.redis.flushall()
            results += await run(plan, opened, number)
        return results


async def test_a_repeated_run_uses_cached_answers_instead_of_the_server(
    opened: Storage, model: ChatDouble, tmp_path: Path
) -> None:
    chosen = EvalModel("compatible/local-30b", tmp_path)
    [first] = await scores(opened, chosen)
    assert (first.failures, first.calls, first.output) == ({}, 2, 14)
    assert first.cost is None, "the price of a local model is unknown"
    [repeated] = await scores(opened, chosen)
    assert (repeated.failures, repeated.calls) == ({}, 2)
    assert len(model.requests) == 2
    model.script(*ANSWERS)
    assert [one.ok for one in await scores(opened, chosen, 2)] == [True, True]
    assert len(model.requests) == 4, "another repetition is another question"


@pytest.mark.slow
async def test_a_run_of_all_lessons_is_repeated_from_cached_answers(opened: Storage, tmp_path: Path) -> None:
    """The endpoint has each answer once, so a request that differs from the first run would get none."""
    answers = recordings.load(["fact_narration"])
    tasks = [task for task in KITS["fact_narration"].tasks() if task.key in answers and not task.history]
    with (
        RecordedEndpoint(answers) as endpoint,
        environment(endpoint.environ_of("COMPATIBLE")),
        proxy_for("compatible/any", tmp_path) as wire,
    ):
        for _ in range(2):
            await opened.redis.flushall()
            results = await run(EvalPlan(tasks, lambda task: f"compatible/{task.key}"), opened)
            assert failed_tasks(results) == {}
    assert wire.fetched == wire.cached > len(tasks)


async def test_errors_are_not_cached(opened: Storage, model: ChatDouble, tmp_path: Path) -> None:
    chosen = EvalModel("compatible/local-30b", tmp_path)
    with (
        ChatDouble(Fail(500, "out of memory"), vendor="llama.cpp", key="none") as broken,
        environment({"COMPATIBLE_BASE_URL": broken.url}),
    ):
        [score] = await scores(opened, chosen)
    assert "out of memory" in score.failures["error"]
    assert score.transcript == []
    assert [one.ok for one in await scores(opened, chosen)] == [True]


async def test_a_task_fails_when_the_server_is_unreachable(
    opened: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPATIBLE_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("COMPATIBLE_MAX_RETRIES", "0")
    [score] = await scores(opened, EvalModel("compatible/local-30b"))
    assert "ConnectError" in score.failures["error"]


async def test_answers_are_recorded_in_the_format_of_handwritten_ones(
    opened: Storage, model: ChatDouble, tmp_path: Path
) -> None:
    await scores(opened, EvalModel("compatible/local-30b", record=tmp_path))
    path = tmp_path / "page_builder.jsonl"
    assert json.loads(path.read_text("utf-8")) == {
        "task": "page_builder.text-02",
        "answers": recorded_answers("page_builder", "text-02"),
    }
    recordings.save(path, {"page_builder.other": [{"text": "Yes."}]})
    assert len(path.read_text("utf-8").splitlines()) == 2


def test_messages_are_read_from_streams_and_from_json_bodies():
    call = {"function": {"name": "undo", "arguments": '{"st'}, "index": 0}
    second = {"function": {"arguments": 'eps": 2}'}, "index": 0}
    deltas = [{"content": "So"}, {"tool_calls": [call]}, {"tool_calls": [second]}]
    stream = "".join(f"data: {json.dumps({'choices': [{'delta': one}]})}\n\n" for one in deltas)
    message = message_of(f"{stream}data: [DONE]\n\n")
    assert message is not None
    assert recordings.answer_of({"messages": [], "tools": [{"function": {"name": "undo"}}]}, message) == {
        "text": "So",
        "calls": [["undo", {"steps": 2}]],
    }
    body = json.dumps({"choices": [{"message": {"content": "Yes"}}]})
    assert message_of(body) == {"content": "Yes"}
    assert message_of('{"object": "response"}') is None
    form = {"messages": [], "tools": [{"function": {"name": "FactSheet"}}]}
    assert recordings.answer_of(form, {"content": "no form"}) == {"form": "FactSheet", "text": "no form"}


def test_openai_reasoning_models_use_the_responses_api_through_the_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    from callsheet.providers import load

    with proxy_for("openai/gpt-6-luna", None) as wire:
        loaded: Any = load("openai/gpt-6-luna")
        assert loaded.use_responses_api
        assert loaded.openai_api_base == wire.url
        assert wire.upstream == "https://api.openai.com/v1"
    for name in ("nobody", "offline"):
        with pytest.raises(Invalid, match="no server"):
            address(name)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"expect": {"touched": []}}, "unknown check: touched"),
        ({"expect": {"touches": []}, "pages": 1}, "unknown field: pages"),
        ({"expect": {}}, "checks nothing"),
        ({"expect": {"touches": []}, "said": [{"say": "x", "expected": {}}]}, "unknown field of a turn"),
        ({"expect": {"touches": []}, "said": [{"say": "x", "expect": {"no": 1}}]}, "unknown check: no"),
    ],
)
def test_an_unknown_field_or_check_of_a_task_is_refused(line: dict[str, Any], problem: str) -> None:
    kit = KITS["page_builder"]
    with pytest.raises(Invalid, match=problem):
        read("page_builder", {"id": "x", "say": "y", **line}, frozenset(kit.fields), frozenset(kit.checks))


@pytest.mark.parametrize("name", [*KITS])
def test_every_check_is_used_and_documented(name: str) -> None:
    kit = KITS[name]
    tasks = kit.tasks()
    assert len(tasks) >= 25
    used = {check for task in tasks for request in task.requests for check in request.expect}
    assert {*kit.checks} - {check.__name__ for check in COMMON} <= used
    fields = {field for task in tasks for field in task.setup}
    assert fields == {*kit.fields}
    text = (EVALS_FOLDER / "README.md").read_text("utf-8")
    missing = [one for one in (*kit.checks, *kit.fields) if f"`{one}`" not in text]
    assert missing == []


def test_every_recording_belongs_to_a_task() -> None:
    for name, kit in KITS.items():
        tasks = {task.key for task in kit.tasks()}
        recorded = recordings.load([name]).keys()
        assert recorded <= tasks
        assert len(recorded) >= 25


def test_the_command_replays_recordings_and_prints_results_and_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--only", "page_builder", "--task", "text-02"]) == 0
    shown = capsys.readouterr().out
    assert "; 0 problems" in shown, "the controls run with every evaluation"
    assert "✔ page_builder text-02" in shown
    assert "1/1 100%" in shown
    assert main(["--task", "text-02", "--task", "text-00"]) == 2
    assert "no task text-00" in capsys.readouterr().out
    assert main(["--model", "nobody/x"]) == 2
    assert "nobody" in capsys.readouterr().out


def test_two_reports_are_compared_case_by_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = Score("page_builder", "a"), Score("page_builder", "a", failures={"touches": "changed []"})
    other = Score("page_builder", "b")
    for name, results in {"A": [good, good, other], "B": [good, bad]}.items():
        data = Report("m/x", {}, results).data()
        (tmp_path / f"{name}.json").write_text(json.dumps(data), "utf-8")
    assert main(["compare", str(tmp_path / "A.json"), str(tmp_path / "B.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "page_builder a  2 of 2 → 1 of 2 (touches)",
        "page_builder b  ✔ → not run",
        "passed: 2/2 → 0/1; 2 cases differ",
        "difference: -50.0% over 1 tasks in both, p = 1.000 (paired permutation test): within noise",
    ]


def test_a_task_that_waits_for_a_judge_is_neither_passed_nor_failed(tmp_path: Path) -> None:
    good, waiting = Score("page_builder", "a"), Score("page_builder", "b", rubrics={"admits": "It admits."})
    report = Report("m/x", {}, [good, waiting])
    [(_, cells)] = report.rows()
    row = dict(zip([name for name, _ in reporting.COLUMNS], cells, strict=True))
    assert (row["tasks"], row["success"], row["for a judge"]) == ("2", "1/1 100%", "1")
    assert not waiting.ok
    path = tmp_path / "A.json"
    path.write_text(json.dumps(report.data()), "utf-8")
    assert reporting.compare(path, path)[-1].startswith("difference: +0.0% over 1 tasks")


def test_the_results_table_in_the_readme_matches_the_result_files() -> None:
    results = [json.loads(path.read_text("utf-8")) for path in sorted(reporting.RESULTS.glob("*.json"))]
    written = (reporting.RESULTS / "README.md").read_text("utf-8")
    assert written == "\n".join(reporting.markdown(results)) + "\n"
    for one in results:
        assert one["prompts"].keys() == KITS.keys()
