"""Approval of a plan by a person before it is executed, where the caller asks for it."""

import pytest
from langgraph.types import Command

from tests.doubles.ad_model import SAY_DONE, brief_input, call, config, drafts, stream, tool_messages
from tests.doubles.chat_double import Say


async def test_a_plan_waits_for_approval_before_anything_is_written(graph, model, opened):
    """The question has the form that common agent interfaces render."""
    context = {"provider": "openai", "approve_plan": True}
    model.script(Say(calls=drafts("หนึ่ง")[1:2]))
    state = await graph.ainvoke(brief_input(), config(), context=context)
    [question] = state["__interrupt__"]
    assert question.value["action_requests"][0]["name"] == "create_music_draft"
    [review] = question.value["review_configs"]
    assert review["action_name"] == "create_music_draft"
    assert review["allowed_decisions"] == ["approve", "edit", "reject"]
    assert "prompt" in review["args_schema"]["properties"]
    assert question.value["response_schema"]["required"] == ["decisions"]
    assert not (await stream(opened, "music")).versions
    model.script(SAY_DONE)
    state = await graph.ainvoke(
        Command(resume={"decisions": [{"type": "approve"}]}), config(), context=context
    )
    assert state["drafts"] == {"music": "v1"}


async def test_an_edited_plan_is_executed_with_the_edits(graph, model, opened):
    context = {"provider": "openai", "approve_plan": True}
    model.script(Say(calls=drafts("หนึ่ง")[1:2]))
    await graph.ainvoke(brief_input(), config(), context=context)
    action = {"name": "create_music_draft", "args": {"adId": "kopi", "prompt": "solo cello"}}
    model.script(SAY_DONE)
    answer = {"decisions": [{"type": "edit", "edited_action": action}]}
    await graph.ainvoke(Command(resume=answer), config(), context=context)
    assert (await stream(opened, "music")).versions[0].data["musicPrompt"] == "solo cello"


async def test_the_model_gets_the_reason_of_a_rejection_and_an_equal_plan_is_not_offered_again(
    graph, model, opened
):
    context = {"provider": "openai", "approve_plan": True}
    plan = drafts("หนึ่ง")[1:2]
    model.script(Say(calls=plan))
    await graph.ainvoke(brief_input(), config(), context=context)
    model.script(Say("Then like this:", calls=[("again", *plan[0][1:])]))
    answer = {"decisions": [{"type": "reject", "message": "no piano please"}]}
    state = await graph.ainvoke(Command(resume=answer), config(), context=context)
    assert "no piano please" in dict(tool_messages(state))["c2"]["error"]
    assert "__interrupt__" not in state
    assert state["messages"][-1].text.partition("\n\n")[0] == "Then like this:"
    assert not (await stream(opened, "music")).versions


@pytest.mark.parametrize("word", ["yes", "approve", "Sí, por favor", True])
async def test_a_plain_yes_approves_the_plan(graph, model, opened, word):
    context = {"provider": "openai", "approve_plan": True}
    model.script(Say(calls=drafts("หนึ่ง")[1:2]), SAY_DONE)
    await graph.ainvoke(brief_input(), config(), context=context)
    state = await graph.ainvoke(Command(resume=word), config(), context=context)
    assert state["drafts"] == {"music": "v1"}


EDITED_ACTION = {"name": "create_music_draft", "args": {"adId": "kopi", "prompt": "solo cello"}}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"decisions": []}, "0 decisions were sent for 1 action: send one decision"),
        ({"decisions": [{"type": "maybe"}]}, "holds no decisions"),
        ({"decisions": [{"type": ["edit"]}]}, "holds no decisions"),
        ({"decisions": [{"type": "approve"}] * 3}, "3 decisions were sent for 1 action:"),
        ({"decisions": [{"type": "edit", "edited_action": {"name": "other", "args": {}}}]}, "'other'"),
        ({"decisions": [{"type": "edit"}]}, "no edited_action with args"),
        ({"decisions": [{"type": "edit", "edited_action": None}]}, "no edited_action with args"),
        ({"decisions": [{"type": "edit", "edited_action": {"args": "x"}}]}, "no edited_action with args"),
        (
            {"decisions": [{"type": "edit", "edited_action": EDITED_ACTION, "editedAction": EDITED_ACTION}]},
            "no edited_action with args",
        ),
        ({"decisions": [{"type": "approve", "editedAction": EDITED_ACTION}]}, "has an edited_action"),
        ({"decisions": [{"type": "edit", "edited_action": {"args": {"mood": "x"}}}]}, "argument 'mood'"),
        (7, "holds no decisions"),
    ],
)
async def test_an_invalid_decision_repeats_the_question_with_the_reason(
    graph, model, opened, answer, problem
):
    """C-R1: nothing is executed, and the next valid decision is accepted."""
    context = {"provider": "openai", "approve_plan": True}
    model.script(Say(calls=drafts("หนึ่ง")[1:2]), SAY_DONE)
    [question] = (await graph.ainvoke(brief_input(), config(), context=context))["__interrupt__"]
    ids = {question.id}
    for _ in range(2):
        state = await graph.ainvoke(Command(resume=answer), config(), context=context)
        [next_question] = state["__interrupt__"]
        ids.add(next_question.id)
        assert problem in next_question.value["problem"]
        assert problem in next_question.value["action_requests"][0]["description"]
        assert (
            next_question.value["action_requests"][0]["args"] == question.value["action_requests"][0]["args"]
        )
        assert not (await stream(opened, "music")).versions
    assert len(ids) == 3
    state = await graph.ainvoke(
        Command(resume={"decisions": [{"type": "edit", "editedAction": EDITED_ACTION}]}),
        config(),
        context=context,
    )
    assert "__interrupt__" not in state
    assert (await stream(opened, "music")).versions[0].data["musicPrompt"] == "solo cello"


async def test_an_edited_action_replaces_repaired_arguments(graph, model, opened):
    """C-R1: the edited call is executed, not the text that the model wrote."""
    context = {"provider": "openai", "approve_plan": True}
    model.script(Say(calls=[("c2", "create_music_draft", "{adId: 'kopi', prompt: 'piano',}")]), SAY_DONE)
    [question] = (await graph.ainvoke(brief_input(), config(), context=context))["__interrupt__"]
    assert question.value["action_requests"][0]["args"] == {"adId": "kopi", "prompt": "piano"}
    answer = {"decisions": [{"type": "edit", "edited_action": EDITED_ACTION}]}
    await graph.ainvoke(Command(resume=answer), config(), context=context)
    assert (await stream(opened, "music")).versions[0].data["musicPrompt"] == "solo cello"


async def test_a_question_shows_exactly_the_arguments_that_the_tool_gets(graph, model, opened):
    """C-R1: an argument that the tool ignores would make the call look narrower than it is."""
    context = {"provider": "openai", "approve_plan": True}
    music = call("c2", "create_music_draft", prompt="piano", onlyTheEnding=True, duration="20")
    model.script(Say(calls=[music]), SAY_DONE)
    [question] = (await graph.ainvoke(brief_input(), config(), context=context))["__interrupt__"]
    assert question.value["action_requests"][0]["args"] == {"prompt": "piano", "duration": 20}
    await graph.ainvoke(Command(resume="yes"), config(), context=context)
    assert (await stream(opened, "music")).versions[0].data["musicPrompt"] == "piano"
