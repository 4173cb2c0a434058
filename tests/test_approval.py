"""A person is asked before anything is written, when the caller wants it so."""

import pytest
from langgraph.types import Command

from callsheet.state.errors import Invalid
from tests.ad_double import SAY_DONE, config, drafts, given, stream, tool_messages
from tests.chat_double import Say


async def test_a_person_may_be_asked_before_anything_is_written(graph, model, opened):
    """The question has the shape stock agent interfaces render; nothing is written before the answer."""
    chosen = {"provider": "openai", "approve_plan": True}
    model.script(Say(calls=drafts("หนึ่ง")[1:2]))
    state = await graph.ainvoke(given(), config(), context=chosen)
    [asked] = state["__interrupt__"]
    assert asked.value["action_requests"][0]["name"] == "create_music_draft"
    assert asked.value["review_configs"] == [
        {"action_name": "create_music_draft", "allowed_decisions": ["approve", "edit", "reject"]}
    ]
    assert asked.value["response_schema"]["required"] == ["decisions"]
    assert not (await stream(opened, "music")).versions
    model.script(SAY_DONE)
    state = await graph.ainvoke(
        Command(resume={"decisions": [{"type": "approve"}]}), config(), context=chosen
    )
    assert state["drafts"] == {"music": "v1"}


async def test_an_edited_plan_is_carried_out_as_edited(graph, model, opened):
    chosen = {"provider": "openai", "approve_plan": True}
    model.script(Say(calls=drafts("หนึ่ง")[1:2]))
    await graph.ainvoke(given(), config(), context=chosen)
    action = {"name": "create_music_draft", "args": {"adId": "kopi", "prompt": "solo cello"}}
    model.script(SAY_DONE)
    answer = {"decisions": [{"type": "edit", "edited_action": action}]}
    await graph.ainvoke(Command(resume=answer), config(), context=chosen)
    assert (await stream(opened, "music")).versions[0].data["musicPrompt"] == "solo cello"


async def test_a_rejected_plan_reaches_the_model_with_its_reason_and_is_not_asked_twice(graph, model, opened):
    chosen = {"provider": "openai", "approve_plan": True}
    plan = drafts("หนึ่ง")[1:2]
    model.script(Say(calls=plan))
    await graph.ainvoke(given(), config(), context=chosen)
    model.script(Say("Then like this:", calls=[("again", *plan[0][1:])]))
    answer = {"decisions": [{"type": "reject", "message": "no piano please"}]}
    state = await graph.ainvoke(Command(resume=answer), config(), context=chosen)
    assert "no piano please" in dict(tool_messages(state))["c2"]["error"]
    assert "__interrupt__" not in state
    assert state["messages"][-1].text == "Then like this:"
    assert not (await stream(opened, "music")).versions


@pytest.mark.parametrize("word", ["yes", "approve", "Sí, por favor", True])
async def test_a_plain_word_approves(graph, model, opened, word):
    chosen = {"provider": "openai", "approve_plan": True}
    model.script(Say(calls=drafts("หนึ่ง")[1:2]), SAY_DONE)
    await graph.ainvoke(given(), config(), context=chosen)
    state = await graph.ainvoke(Command(resume=word), config(), context=chosen)
    assert state["drafts"] == {"music": "v1"}


@pytest.mark.parametrize(
    "answer",
    [
        {"decisions": []},
        {"decisions": [{"type": "maybe"}]},
        {"decisions": [{"type": "approve"}] * 3},
        {"decisions": [{"type": "edit", "edited_action": {"name": "other", "args": {}}}]},
        7,
    ],
)
async def test_a_malformed_decision_is_refused_and_the_question_stays(graph, model, opened, answer):
    chosen = {"provider": "openai", "approve_plan": True}
    model.script(Say(calls=drafts("หนึ่ง")[1:2]))
    await graph.ainvoke(given(), config(), context=chosen)
    with pytest.raises(Invalid):
        await graph.ainvoke(Command(resume=answer), config(), context=chosen)
    assert (await graph.aget_state(config())).next == ("approval",)
    assert not (await stream(opened, "music")).versions
