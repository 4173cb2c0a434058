"""The setting `tool_choice` of a turn (C7)."""

import pytest

from callsheet.state.errors import Invalid
from tests.doubles.ad_model import SAY_DONE, brief_input, config, drafts
from tests.doubles.chat_double import Say

MUSIC = {"type": "function", "function": {"name": "create_music_draft"}}


@pytest.mark.parametrize("choice", ["auto", "required", MUSIC])
async def test_tool_choice_applies_to_the_first_round_only(graph, model, choice):
    """C7: otherwise a model that must call a tool could never end the turn."""
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
async def test_a_tool_choice_outside_the_workflow_is_refused(graph, model, choice):
    with pytest.raises(Invalid, match="not a tool of this workflow"):
        await graph.ainvoke(brief_input(), config(), context={"provider": "openai", "tool_choice": choice})
