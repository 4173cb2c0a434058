"""The evaluation of audio ads: recorded answers fit schema and flow, and wrong ones are caught."""

import pytest

from tests.models.evaluated import (
    PARTS,
    failed_tasks,
    failing_checks,
    offline_scores,
    recorded_answers,
    recorded_scores,
)

ADS = "ad_creation"
LEGAL = "brief-en-legal"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
async def test_recorded_answers_fit_schema_and_flow(valkey_url: str, part: int) -> None:
    """A1-A23: through the graph, the client over HTTP and the real tools."""
    assert failed_tasks(await recorded_scores(valkey_url, ADS, part)) == {}


async def test_the_offline_model_passes_the_tasks_of_its_grammar(valkey_url: str) -> None:
    scores = await offline_scores(valkey_url, ADS)
    assert len(scores) >= 5
    assert failed_tasks(scores) == {}


@pytest.mark.parametrize(
    ("sentence", "check", "problem"),
    [
        ("Loans from 4.9 percent.", "numbers_from_brief", "4.9"),
        ("Ask for Barclays at the pier.", "names_from_brief", "Barclays"),
        ("Only until 12 March.", "numbers_from_brief", "12, March"),
        ("Guaranteed to be approved.", "promises_from_brief", "guaranteed"),
    ],
    ids=["number", "name", "date", "claim"],
)
async def test_a_false_claim_of_a_script_is_caught(
    valkey_url: str, sentence: str, check: str, problem: str
) -> None:
    """A22: a number, a name, a date and a promise that the brief does not have."""
    answers = recorded_answers(ADS, LEGAL)
    track = answers[1]["calls"][0][1]["tracks"][0]
    track["text"] = f"{track['text']} {sentence}"
    assert problem in (await failing_checks(valkey_url, ADS, LEGAL, answers))[check]


async def test_a_missing_legal_line_is_caught(valkey_url: str) -> None:
    answers = recorded_answers(ADS, LEGAL)
    track = answers[1]["calls"][0][1]["tracks"][0]
    track["text"] = track["text"].replace("Terms apply, new customers only. ", "")
    wrong = await failing_checks(valkey_url, ADS, LEGAL, answers)
    assert "Terms apply, new customers only" in wrong["mandatory"]


async def test_a_change_of_another_stream_is_caught(valkey_url: str) -> None:
    answers = recorded_answers(ADS, "music-en-01")
    answers[0]["calls"].append(["create_sfx_draft", {"prompts": []}])
    wrong = await failing_checks(valkey_url, ADS, "music-en-01", answers)
    assert wrong == {"changed_streams": "changed ['music', 'sfx']"}


async def test_a_script_that_does_not_fit_is_caught(valkey_url: str) -> None:
    answers = recorded_answers(ADS, "text-en-06")
    track = answers[0]["calls"][0][1]["tracks"][1]
    track["text"] = " ".join([track["text"]] * 4)
    assert "in a spot of 30 s" in (await failing_checks(valkey_url, ADS, "text-en-06", answers))["fits"]


async def test_a_fact_that_is_lost_in_a_long_conversation_is_caught(valkey_url: str) -> None:
    answers = recorded_answers(ADS, "long-01")
    last = next(one for one in reversed(answers) if "calls" in one)
    track = last["calls"][0][1]["tracks"][0]
    track["text"] = track["text"].replace("Dust never wins.", "We never sleep.")
    assert "turn 12: text_ends_with" in await failing_checks(valkey_url, ADS, "long-01", answers)
