"""The evaluation of videos: recorded answers fit schema and flow, and wrong ones are caught."""

import pytest

from tests.models.evaluated import (
    PARTS,
    failed_tasks,
    failing_checks,
    offline_scores,
    recorded_answers,
    recorded_scores,
)

SCENES = "scene_edit"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
async def test_recorded_answers_fit_schema_and_flow(valkey_url: str, part: int) -> None:
    """D7-D14: through the graph, the client over HTTP and the real tools."""
    assert failed_tasks(await recorded_scores(valkey_url, SCENES, part)) == {}


@pytest.mark.slow
async def test_the_offline_model_passes_the_tasks_of_its_grammar(valkey_url: str) -> None:
    """D7 to D14, D-R12, D-R13: right scenes changed, all others byte-identical, the plan minimal."""
    scores = await offline_scores(valkey_url, SCENES)
    assert len(scores) >= 10
    assert failed_tasks(scores) == {}


async def test_a_change_of_an_example_is_caught(valkey_url: str) -> None:
    """D13: a scene named as an example is not changed."""
    answers = recorded_answers(SCENES, "some-04")
    step = answers[0]["calls"][0][1]["steps"][0]
    step["scenes"], step["like"] = ["scene-1", "scene-3"], []
    answers.append({"form": "ScenePatch", "about": "How it works", "fills": {"background": "#111111"}})
    wrong = await failing_checks(valkey_url, SCENES, "some-04", answers)
    assert wrong["changes"] == "changed ['scene-1', 'scene-3']"
    assert wrong["reads"] == "wrote ['scene-3']"


async def test_a_plan_that_is_too_large_is_caught(valkey_url: str) -> None:
    answers = recorded_answers(SCENES, "length-01")
    steps = answers[0]["calls"][0][1]["steps"]
    steps.append({"tool": "trimScene", "scenes": ["scene-2"], "seconds": 5})
    assert await failing_checks(valkey_url, SCENES, "length-01", answers) == {"steps_max": "2 steps"}


async def test_the_wrong_length_is_caught(valkey_url: str) -> None:
    answers = recorded_answers(SCENES, "length-01")
    answers[0]["calls"][0][1]["steps"][0]["seconds"] = 4
    assert "seconds" in await failing_checks(valkey_url, SCENES, "length-01", answers)
