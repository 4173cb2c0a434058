"""The evaluation of campaign search: wrong answers are caught."""

from tests.models.evaluated import failing_checks, recorded_answers

CAMPAIGNS = "campaign_search"


async def test_a_number_that_no_search_returned_is_caught(valkey_url: str) -> None:
    """E27: the product asks once more, and then answers from the result alone."""
    answers = recorded_answers(CAMPAIGNS, "count-01")
    statement = answers[1]["calls"][0][1]["statements"][0]
    statement["text"], statement["figures"] = "999 campaigns are on Facebook.", [999]
    wrong = await failing_checks(valkey_url, CAMPAIGNS, "count-01", [*answers, answers[1]])
    assert "figure '999' was not returned" in wrong["proven"]
    mended = [*answers, *recorded_answers(CAMPAIGNS, "count-01")[1:]]
    assert await failing_checks(valkey_url, CAMPAIGNS, "count-01", mended) == {}


async def test_the_wrong_filters_are_caught(valkey_url: str) -> None:
    answers = recorded_answers(CAMPAIGNS, "show-01")
    answers[0]["calls"][0][1]["channel"] = ["email"]
    del answers[1]["calls"][0][1]["statements"][0]["figures"]
    answers[1]["calls"][0][1]["statements"][0]["text"] = "Here they are."
    wrong = await failing_checks(valkey_url, CAMPAIGNS, "show-01", answers)
    assert {"filters", "ids"} == wrong.keys()
