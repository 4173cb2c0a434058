"""Prices of models (B58, B-R1), and results of the agents of a lesson (B18-B20)."""

import pytest

from callsheet.state.errors import Invalid
from callsheet.state.lessons.lesson import agent_results
from callsheet.state.plan import StepResult
from callsheet.state.pricing import PRICES, Price, cost, parse_prices, price, total


def test_a_known_model_costs_its_list_price_and_an_unknown_model_has_no_price():
    """B58, X14."""
    assert cost("gpt-4o-mini", 1_000_000, 1_000_000) == 0.75
    assert cost("gpt-4o-mini", 1_000_000, 0, cached=1_000_000) == 0.075
    assert cost("offline", 10**9, 10**9) == 0
    assert cost("some-new-model", 2_000, 1_000) is None
    assert cost("gpt-4o-audio-preview", 2_000, 1_000) is None
    assert (total([0.1, 0.2]), total([0.1, None]), total([])) == (0.3, None, 0)


def test_an_operators_price_overrides_the_list_price():
    """B-R1: configuration, by model."""
    table = parse_prices({"gpt-5": [2, 11], "own": [0.25, 2.0, 0.1], "*": [1, 2]})
    assert price("gpt-5-2025-08-07", table) == Price(2.0, 11.0, 2.0)
    assert price("own", table) == Price(0.25, 2.0, 0.1)
    assert price("gpt-4o-mini-2024-07-18", table) == PRICES["gpt-4o-mini"]
    assert price("else", table) == Price(1.0, 2.0, 1.0)


@pytest.mark.parametrize(
    "value", [1, [1], [1, 2, 3, 4], ["1", 2], [True, 1], [-1, 1], [float("inf"), 1], None]
)
def test_an_invalid_price_is_refused_with_the_models_name(value):
    with pytest.raises(Invalid, match="the price of 'gpt-5'"):
        parse_prices({"gpt-5": value})


def step_result(tool: str, status: str, **output: object) -> StepResult:
    return StepResult(id="c", plan="p", tool=tool, status=status, output=output, duration_s=0.5)  # type: ignore[typeddict-item]


def test_an_agents_result_has_data_cost_and_duration():
    """B18, B19, B-R14: two of the three tools have an agent behind them."""
    facts = {"facts": [{"id": "f"}], "message": "Found.", "topic": "Bees", "learningObjective": "Know."}
    extraction, narration = agent_results(
        [
            step_result("saveStudentInfoTool", "completed", message="Noted."),
            step_result("extractFactsTool", "completed", **facts, cost=0.01, duration=1.5, versionId="v1"),
            step_result("generateNarrationTool", "completed", narration={"segments": []}, message="Ready."),
        ]
    )
    assert extraction == {
        "agent": "FactExtractionAgent",
        "success": True,
        "data": facts,
        "cost": 0.01,
        "duration": 1.5,
    }
    assert (narration["agent"], dict(narration["data"]), narration["cost"]) == (
        "NarrativeBuilderAgent",
        {"script": {"segments": []}},
        0.0,
    )
    assert narration["duration"] == 0.5


@pytest.mark.parametrize(("output", "error"), [({"error": "no words"}, "no words"), ({}, "was not executed")])
def test_the_result_of_a_failed_agent_has_its_error_and_no_cost(output, error):
    """B20."""
    [failed] = agent_results([step_result("extractFactsTool", "error", **output)])
    assert (failed["success"], failed["data"], failed["cost"], failed["duration"]) == (False, {}, 0.0, 0.5)
    assert error in failed["error"]
