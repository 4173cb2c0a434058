"""Forms that models fill in: the ladder of requests, repair, and corrections (B7, B65, A71)."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, Field

from callsheet import providers
from callsheet.providers.openai import OpenAIModel
from callsheet.state.errors import Broken, Unavailable
from callsheet.tools.models.structured import FilledForm, fill_in
from tests.doubles.chat_double import ChatDouble, Fail, Say


class Recipe(BaseModel):
    """A recipe."""

    dish: str = Field(min_length=1)
    minutes: int = Field(ge=1)
    steps: list[str] = Field(min_length=1)


SOUP = {"dish": "soup", "minutes": 20, "steps": ["boil water"]}
ANSWER = json.dumps(SOUP)
REJECTED = Fail(400, "tool_choice is not supported by this model", "invalid_request_error")


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    with ChatDouble() as one:
        for name, value in one.environ.items():
            monkeypatch.setenv(name, value)
        yield one


class WithSchemaMode(OpenAIModel):
    """A vendor with a JSON Schema mode."""

    @property
    def structured_rungs(self) -> tuple[str, ...]:
        return ("json_schema", "forced_tool")


async def filled(model: BaseChatModel | None = None) -> FilledForm[Recipe]:
    model = model or providers.load("openai")
    model.disable_streaming = True
    return await fill_in(model, Recipe, "You write recipes.", {"wish": "a soup"})


def shape(body: dict[str, Any]) -> str:
    if "response_format" in body:
        return "json_schema"
    if "tools" not in body:
        return "prose"
    return "offered" if body.get("tool_choice", "auto") == "auto" else "forced"


@pytest.mark.parametrize(
    "answer",
    [
        Say(calls=[("c1", "Recipe", ANSWER)]),
        Say(calls=[("c1", "recipe_tool", ANSWER)]),
        Say(calls=[("c1", "Recipe", "{dish: 'soup', minutes: '20', steps: 'boil water',}")]),
        Say(ANSWER),
        Say(f"Here it is:\n```json\n{ANSWER}\n```\nEnjoy!"),
        Say(f"Of course! {ANSWER} Anything else?"),
        Say(f"<think>They want {{soup}}.</think>{ANSWER}"),
        Say(json.dumps({"arguments": SOUP})),
    ],
)
async def test_a_form_is_found_wherever_the_model_put_it(double: ChatDouble, answer: Say) -> None:
    double.script(answer)
    assert (await filled()).form.model_dump() == SOUP
    assert [shape(one.body) for one in double.requests] == ["forced"]


async def test_a_model_that_only_answers_in_prose_with_a_fence_fills_in_a_form(double: ChatDouble) -> None:
    """Its vendor knows no tools at all."""
    double.script(REJECTED, REJECTED, Say(f"Sure.\n```\n{ANSWER}\n```"))
    assert (await filled()).form.dish == "soup"
    assert [shape(one.body) for one in double.requests] == ["forced", "offered", "prose"]
    system = double.requests[-1].messages[0]["content"]
    assert system.startswith("You write recipes.")
    assert '"minutes"' in system


async def test_a_schema_mode_is_tried_first_where_the_vendor_has_one(double: ChatDouble) -> None:
    double.script(REJECTED, Say(calls=[("c1", "Recipe", ANSWER)]))
    assert (await filled(WithSchemaMode.from_environ("", os.environ))).form.dish == "soup"
    assert [shape(one.body) for one in double.requests] == ["json_schema", "forced"]
    wanted = double.requests[0].body["response_format"]["json_schema"]
    assert (wanted["name"], set(wanted["schema"]["properties"])) == ("Recipe", set(SOUP))


async def test_what_does_not_fit_goes_back_with_the_reason(double: ChatDouble) -> None:
    wrong = json.dumps(SOUP | {"minutes": "soon"})
    double.script(Say(calls=[("c1", "Recipe", wrong)]), Say(calls=[("c1", "Recipe", ANSWER)]))
    found = await filled()
    assert found.form.minutes == 20
    first, second = (one.messages for one in double.requests)
    assert second[: len(first)] == first
    assert (second[-2]["role"], second[-2]["content"]) == ("assistant", wrong)
    assert second[-1]["role"] == "user"
    assert "minutes: Input should be a valid integer" in second[-1]["content"]
    assert found.cost == pytest.approx(2 * (11 * 0.1e-6 + 7 * 0.5e-6)), "both answers were paid for"


async def test_an_answer_that_was_cut_off_is_not_used_and_the_model_hears_of_it(double: ChatDouble) -> None:
    double.script(Say(ANSWER, finish="length"), Say(ANSWER))
    assert (await filled()).form.dish == "soup"
    assert "cut off" in double.requests[1].messages[-1]["content"]


async def test_an_answer_without_a_form_makes_the_next_request_simpler(double: ChatDouble) -> None:
    double.script(Say("Sorry?"), Say("Which soup?"), Say(ANSWER))
    assert (await filled()).form.dish == "soup"
    assert [shape(one.body) for one in double.requests] == ["forced", "offered", "prose"]


async def test_what_never_fits_is_an_error_that_says_why(double: ChatDouble) -> None:
    double.script(*[Say(json.dumps({"dish": "soup"}))] * 3)
    with pytest.raises(
        Unavailable, match=r"does not fit Recipe.*minutes: Field required; steps: Field required"
    ):
        await filled()
    assert double.unused == 0


async def test_a_request_that_every_rung_has_rejected_is_the_vendors_error(double: ChatDouble) -> None:
    double.script(*[REJECTED] * 3)
    with pytest.raises(Broken, match="tool_choice is not supported"):
        await filled()


async def test_a_refusal_is_told_in_the_models_words(double: ChatDouble) -> None:
    double.script(Say(refusal="I cannot help with that."))
    with pytest.raises(Unavailable, match="I cannot help with that"):
        await filled()
