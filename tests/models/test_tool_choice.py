"""Whether the model must call a tool, and which (C7)."""

import pytest

from callsheet.state.errors import Invalid
from tests.doubles.ad_model import SAY_DONE, brief_input, config, drafts
from tests.doubles.chat_double import Say

MUSIC = {"type": "function", "function": {"name": "create_music_draft"}}


@pytest.mark.parametrize("choice", ["auto", "required", MUSIC])
async def test_the_first_round_is_as_chosen_and_later_ones_are_free(graph, model, choice):
    """C7: else a model that must call could never end."""
    model.script(Say(calls=drafts("หนึ่ง")[1:2]), SAY_DONE)
    state = await graph.ainvoke(
        brief_input(), config(), context={"provider": "openai", "tool_choice": choice}
    )
    sent = [request.body.get("tool_choice", "auto") for request in model.requests]
    assert sent == [choice, "auto"]
    assert state["drafts"] == {"music": "v1"}


@pytest.mark.parametrize(
    "choice", ["any tool", {"type": "function", "function": {"name": "launch_rocket"}}, {"type": "function"}]
)
async def test_a_tool_that_the_workflow_has_not_cannot_be_chosen(graph, model, choice):
    with pytest.raises(Invalid, match="not a tool of this workflow"):
        await graph.ainvoke(brief_input(), config(), context={"provider": "openai", "tool_choice": choice})
