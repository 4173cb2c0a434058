"""Every workflow's evaluation: recorded answers fit schema and flow, and the offline model its grammar."""

import pytest

from tests.models.evaluated import PARTS, failed_tasks, offline_scores, recorded_scores

pytestmark = pytest.mark.timeout(120)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    "workflow", ["ad_creation", "fact_narration", "page_builder", "campaign_search", "scene_edit"]
)
async def test_recorded_answers_fit_schema_and_flow(valkey_url: str, workflow: str, part: int) -> None:
    """A1-A23, B1-B22, B52, C21-C28, D7-D14, E1-E30: over HTTP, through the graph and the real tools."""
    assert failed_tasks(await recorded_scores(valkey_url, workflow, part)) == {}


@pytest.mark.parametrize(
    ("workflow", "tasks_min"),
    [
        ("ad_creation", 5),
        ("fact_narration", 5),
        ("page_builder", 5),
        pytest.param("campaign_search", 5, marks=pytest.mark.slow),
        pytest.param("scene_edit", 10, marks=pytest.mark.slow),
    ],
)
async def test_the_offline_model_passes_the_tasks_of_its_grammar(
    valkey_url: str, workflow: str, tasks_min: int
) -> None:
    """D7 to D14, D-R12, D-R13: of a video only the right scenes change, and the plan is minimal."""
    scores = await offline_scores(valkey_url, workflow)
    assert len(scores) >= tasks_min
    assert failed_tasks(scores) == {}
