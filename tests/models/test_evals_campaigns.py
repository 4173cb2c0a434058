"""The evaluation of campaign search: recorded answers fit schema and flow, and wrong ones are caught."""

import pytest

from tests.models.evaluated import (
    PARTS,
    failed_tasks,
    failing_checks,
    offline_scores,
    recorded_answers,
    recorded_scores,
)

CAMPAIGNS = "campaign_search"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
async def test_recorded_answers_fit_schema_and_flow(valkey_url: str, part: int) -> None:
    """E1-E30: through the graph, the client over HTTP and the real tools."""
    assert failed_tasks(await recorded_scores(valkey_url, CAMPAIGNS, part)) == {}


@pytest.mark.slow
async def test_the_offline_model_passes_the_tasks_of_its_grammar(valkey_url: str) -> None:
    scores = await offline_scores(valkey_url, CAMPAIGNS)
    assert len(scores) >= 5
    assert failed_tasks(scores) == {}


async def test_a_number_that_no_search_returned_is_caught(valkey_url: str) -> None:
    """E27: the product asks once more, and then answers from the result alone."""
    answers = recorded_answers(CAMPAIGNS, "count-01")
    statement = answers[1]["calls"][0][1]["statements"][0]
    statement["text"], statement["figures"] = "999 campaigns are on Facebook.", [999]
    wrong = await failing_checks(valkey_url, CAMPAIGNS, "count-01", [*answers, answers[1]])
    assert "figure 999 was not returned" in wrong["proven"]
    mended = [*answers, *recorded_answers(CAMPAIGNS, "count-01")[1:]]
    assert await failing_checks(valkey_url, CAMPAIGNS, "count-01", mended) == {}


async def test_the_wrong_filters_are_caught(valkey_url: str) -> None:
    answers = recorded_answers(CAMPAIGNS, "show-01")
    answers[0]["calls"][0][1]["channel"] = ["email"]
    del answers[1]["calls"][0][1]["statements"][0]["figures"]
    answers[1]["calls"][0][1]["statements"][0]["text"] = "These ran on Instagram."
    wrong = await failing_checks(valkey_url, CAMPAIGNS, "show-01", answers)
    assert {"filters", "ids"} == wrong.keys()
