"""Forms that models fill in: kinds of request, repair, and corrections (B7, B65, A71)."""

import json
import os
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, Field

from callsheet import providers
from callsheet.providers.openai import OpenAIModel
from callsheet.providers.routing import failed_requests
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


class WithSchemaMode(OpenAIModel):
    """A vendor with a JSON Schema mode."""

    @property
    def structured_rungs(self) -> tuple[str, ...]:
        return ("json_schema", "forced_tool")


@pytest.fixture(autouse=True)
def forget_failed_requests() -> None:
    failed_requests.cache_clear()


async def fill_recipe(model: BaseChatModel | None = None) -> FilledForm[Recipe]:
    model = model or providers.load("openai")
    model.disable_streaming = True
    return await fill_in(model, Recipe, "You write recipes.", {"wish": "a soup"})


def request_kind(body: dict[str, Any]) -> str:
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
async def test_a_form_is_read_from_a_call_from_text_and_from_a_fence(model: ChatDouble, answer: Say) -> None:
    model.script(answer)
    assert (await fill_recipe()).form.model_dump() == SOUP
    assert [request_kind(one.body) for one in model.requests] == ["forced"]


async def test_a_form_is_read_from_prose_when_the_vendor_rejects_tools(model: ChatDouble) -> None:
    """Some servers support no tools."""
    model.script(REJECTED, REJECTED, Say(f"Sure.\n```\n{ANSWER}\n```"))
    assert (await fill_recipe()).form.dish == "soup"
    assert [request_kind(one.body) for one in model.requests] == ["forced", "offered", "prose"]
    system = model.requests[-1].messages[0]["content"]
    assert system.startswith("You write recipes.")
    assert '"minutes"' in system


async def test_a_vendors_json_schema_mode_is_tried_first(model: ChatDouble) -> None:
    model.script(REJECTED, Say(calls=[("c1", "Recipe", ANSWER)]))
    assert (await fill_recipe(WithSchemaMode.from_environ("", os.environ))).form.dish == "soup"
    assert [request_kind(one.body) for one in model.requests] == ["json_schema", "forced"]
    schema = model.requests[0].body["response_format"]["json_schema"]
    assert (schema["name"], set(schema["schema"]["properties"])) == ("Recipe", set(SOUP))


async def test_an_invalid_form_is_returned_to_the_model_with_the_reason(model: ChatDouble) -> None:
    invalid = json.dumps(SOUP | {"minutes": "soon"})
    model.script(Say(calls=[("c1", "Recipe", invalid)]), Say(calls=[("c1", "Recipe", ANSWER)]))
    result = await fill_recipe()
    assert result.form.minutes == 20
    first, second = (one.messages for one in model.requests)
    assert second[: len(first)] == first
    assert (second[-2]["role"], second[-2]["content"]) == ("assistant", invalid)
    assert second[-1]["role"] == "user"
    assert "minutes: Input should be a valid integer" in second[-1]["content"]
    assert result.cost == pytest.approx(2 * (11 * 0.1e-6 + 7 * 0.5e-6)), "both answers were paid for"


async def test_a_truncated_answer_is_not_used_and_the_model_gets_the_reason(model: ChatDouble) -> None:
    model.script(Say(ANSWER, finish="length"), Say(ANSWER))
    assert (await fill_recipe()).form.dish == "soup"
    assert "cut off" in model.requests[1].messages[-1]["content"]


async def test_an_answer_without_a_form_leads_to_a_simpler_request(model: ChatDouble) -> None:
    model.script(Say("Sorry?"), Say("Which soup?"), Say(ANSWER))
    assert (await fill_recipe()).form.dish == "soup"
    assert [request_kind(one.body) for one in model.requests] == ["forced", "offered", "prose"]


async def test_a_form_that_stays_invalid_raises_an_error_with_the_reason(model: ChatDouble) -> None:
    model.script(*[Say(json.dumps({"dish": "soup"}))] * 3)
    with pytest.raises(
        Unavailable, match=r"does not fit Recipe.*minutes: Field required; steps: Field required"
    ):
        await fill_recipe()
    assert model.unused == 0


async def test_the_vendors_error_is_raised_when_every_kind_of_request_is_rejected(model: ChatDouble) -> None:
    model.script(*[REJECTED] * 3)
    with pytest.raises(Broken, match="tool_choice is not supported"):
        await fill_recipe()


async def test_a_refusal_is_raised_with_the_models_words(model: ChatDouble) -> None:
    model.script(Say(refusal="I cannot help with that."))
    with pytest.raises(Unavailable, match="I cannot help with that"):
        await fill_recipe()


@pytest.mark.parametrize("prefix", ["COMPATIBLE", "OLLAMA"])
async def test_a_local_server_gets_a_json_schema_first_with_limits_and_in_the_prompt(
    model: ChatDouble, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    """Such servers have grammars, and a model that does not see the form fills it in badly."""
    for name, value in model.environ_of(prefix, MODEL="qwen2.5:1.5b").items():
        monkeypatch.setenv(name, value)
    model.script(Say(ANSWER))
    assert (await fill_recipe(providers.load(prefix.lower()))).form.dish == "soup"
    [request] = model.requests
    assert request_kind(request.body) == "json_schema"
    schema = request.body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["steps"] == {"type": "array", "items": {"type": "string"}, "maxItems": 50}
    assert '"minutes"' in request.messages[0]["content"]


async def test_a_request_that_a_server_rejected_is_not_sent_to_it_again(
    model: ChatDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A form costs one request from then on; other models are asked as before."""
    for name, value in model.environ_of("COMPATIBLE", MODEL="old").items():
        monkeypatch.setenv(name, value)
    model.script(REJECTED, REJECTED, Say(calls=[("c1", "Recipe", ANSWER)]))
    await fill_recipe(providers.load("compatible"))
    model.script(Say(calls=[("c1", "Recipe", ANSWER)]), Say(ANSWER))
    await fill_recipe(providers.load("compatible"))
    await fill_recipe(providers.load("compatible/new"))
    kinds = [request_kind(one.body) for one in model.requests]
    assert kinds == ["json_schema", "forced", "offered", "offered", "json_schema"]


async def test_a_json_schema_that_a_server_ignored_is_not_sent_to_it_again(
    model: ChatDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in model.environ_of("COMPATIBLE", MODEL="old").items():
        monkeypatch.setenv(name, value)
    model.script(Say("A soup? Gladly."), *[Say(calls=[("c1", "Recipe", ANSWER)])] * 2)
    for _ in range(2):
        await fill_recipe(providers.load("compatible"))
    assert [request_kind(one.body) for one in model.requests] == ["json_schema", "forced", "forced"]


async def test_nothing_is_remembered_of_a_server_that_rejects_every_request(model: ChatDouble) -> None:
    """The request itself was wrong then."""
    model.script(*[REJECTED] * 3, Say(calls=[("c1", "Recipe", ANSWER)]))
    with pytest.raises(Broken):
        await fill_recipe()
    await fill_recipe()
    assert request_kind(model.requests[-1].body) == "forced"
