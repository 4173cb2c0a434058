"""What models cost (B58, B-R1), and what the agents of a lesson are told to have done (B18-B20)."""

import pytest

from callsheet.state.errors import Invalid
from callsheet.state.lessons.agents import results
from callsheet.state.plan import StepResult
from callsheet.state.pricing import PRICES, Price, cost, parse_prices, price, total


def test_a_known_model_costs_its_list_price_and_an_unknown_one_is_not_priced():
    """B58, X14."""
    assert cost("gpt-4o-mini", 1_000_000, 1_000_000) == 0.75
    assert cost("gpt-4o-mini", 1_000_000, 0, cached=1_000_000) == 0.075
    assert cost("offline", 10**9, 10**9) == 0
    assert cost("some-new-model", 2_000, 1_000) is None
    assert cost("gpt-4o-audio-preview", 2_000, 1_000) is None
    assert (total([0.1, 0.2]), total([0.1, None]), total([])) == (0.3, None, 0)


def test_an_operators_price_goes_before_the_list_price():
    """B-R1: configuration, by model."""
    table = parse_prices({"gpt-5": [2, 11], "own": [0.25, 2.0, 0.1], "*": [1, 2]})
    assert price("gpt-5-2025-08-07", table) == Price(2.0, 11.0, 2.0)
    assert price("own", table) == Price(0.25, 2.0, 0.1)
    assert price("gpt-4o-mini-2024-07-18", table) == PRICES["gpt-4o-mini"]
    assert price("else", table) == Price(1.0, 2.0, 1.0)


@pytest.mark.parametrize(
    "told", [1, [1], [1, 2, 3, 4], ["1", 2], [True, 1], [-1, 1], [float("inf"), 1], None]
)
def test_a_price_that_is_none_is_refused_by_name(told):
    with pytest.raises(Invalid, match="the price of 'gpt-5'"):
        parse_prices({"gpt-5": told})


def step(tool: str, status: str, **output: object) -> StepResult:
    return StepResult(id="c", plan="p", tool=tool, status=status, output=output, duration_s=0.5)  # type: ignore[typeddict-item]


def test_an_agents_result_has_data_cost_and_duration():
    """B18, B19, B-R14: two of the three tools have an agent behind them."""
    facts = {"facts": [{"id": "f"}], "message": "Found.", "topic": "Bees", "learningObjective": "Know."}
    found, told = results(
        [
            step("saveStudentInfoTool", "completed", message="Noted."),
            step("extractFactsTool", "completed", **facts, cost=0.01, duration=1.5, versionId="v1"),
            step("generateNarrationTool", "completed", narration={"segments": []}, message="Ready."),
        ]
    )
    assert found == {
        "agent": "FactExtractionAgent",
        "success": True,
        "data": facts,
        "cost": 0.01,
        "duration": 1.5,
    }
    assert (told["agent"], told["data"], told["cost"]) == (
        "NarrativeBuilderAgent",
        {"script": {"segments": []}},
        0.0,
    )
    assert told["duration"] == 0.5


@pytest.mark.parametrize(("output", "error"), [({"error": "no words"}, "no words"), ({}, "was not executed")])
def test_an_agent_that_failed_says_so_and_cost_nothing(output, error):
    """B20."""
    [failed] = results([step("extractFactsTool", "error", **output)])
    assert (failed["success"], failed["data"], failed["cost"], failed["duration"]) == (False, {}, 0.0, 0.5)
    assert error in failed["error"]
