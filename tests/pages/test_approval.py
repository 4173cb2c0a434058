"""A person is asked before anything is written, when the caller wants it so."""

import pytest
from langgraph.types import Command

from tests.doubles.ad_model import SAY_DONE, brief_input, call, config, drafts, stream, tool_messages
from tests.doubles.chat_double import Say


async def test_a_person_may_be_asked_before_anything_is_written(graph, model, opened):
    """The question has the shape stock agent interfaces render; nothing is written before the answer."""
    chosen = {"provider": "openai", "approve_plan": True}
    model.script(Say(calls=drafts("หนึ่ง")[1:2]))
    state = await graph.ainvoke(brief_input(), config(), context=chosen)
    [asked] = state["__interrupt__"]
    assert asked.value["action_requests"][0]["name"] == "create_music_draft"
    [review] = asked.value["review_configs"]
    assert review["action_name"] == "create_music_draft"
    assert review["allowed_decisions"] == ["approve", "edit", "reject"]
    assert "prompt" in review["args_schema"]["properties"]
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
    await graph.ainvoke(brief_input(), config(), context=chosen)
    action = {"name": "create_music_draft", "args": {"adId": "kopi", "prompt": "solo cello"}}
    model.script(SAY_DONE)
    answer = {"decisions": [{"type": "edit", "edited_action": action}]}
    await graph.ainvoke(Command(resume=answer), config(), context=chosen)
    assert (await stream(opened, "music")).versions[0].data["musicPrompt"] == "solo cello"


async def test_a_rejected_plan_reaches_the_model_with_its_reason_and_is_not_asked_twice(graph, model, opened):
    chosen = {"provider": "openai", "approve_plan": True}
    plan = drafts("หนึ่ง")[1:2]
    model.script(Say(calls=plan))
    await graph.ainvoke(brief_input(), config(), context=chosen)
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
    await graph.ainvoke(brief_input(), config(), context=chosen)
    state = await graph.ainvoke(Command(resume=word), config(), context=chosen)
    assert state["drafts"] == {"music": "v1"}


EDITED = {"name": "create_music_draft", "args": {"adId": "kopi", "prompt": "solo cello"}}


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
            {"decisions": [{"type": "edit", "edited_action": EDITED, "editedAction": EDITED}]},
            "no edited_action with args",
        ),
        ({"decisions": [{"type": "approve", "editedAction": EDITED}]}, "has an edited_action"),
        ({"decisions": [{"type": "edit", "edited_action": {"args": {"mood": "x"}}}]}, "argument 'mood'"),
        (7, "holds no decisions"),
    ],
)
async def test_an_invalid_answer_is_refused_and_the_question_asked_again(
    graph, model, opened, answer, problem
):
    """C-R1: nothing is carried out, the question says why, and the next valid answer counts."""
    chosen = {"provider": "openai", "approve_plan": True}
    model.script(Say(calls=drafts("หนึ่ง")[1:2]), SAY_DONE)
    [asked] = (await graph.ainvoke(brief_input(), config(), context=chosen))["__interrupt__"]
    ids = {asked.id}
    for _ in range(2):
        state = await graph.ainvoke(Command(resume=answer), config(), context=chosen)
        [again] = state["__interrupt__"]
        ids.add(again.id)
        assert problem in again.value["problem"]
        assert problem in again.value["action_requests"][0]["description"]
        assert again.value["action_requests"][0]["args"] == asked.value["action_requests"][0]["args"]
        assert not (await stream(opened, "music")).versions
    assert len(ids) == 3
    state = await graph.ainvoke(
        Command(resume={"decisions": [{"type": "edit", "editedAction": EDITED}]}), config(), context=chosen
    )
    assert "__interrupt__" not in state
    assert (await stream(opened, "music")).versions[0].data["musicPrompt"] == "solo cello"


async def test_an_edit_replaces_arguments_that_had_to_be_repaired(graph, model, opened):
    """C-R1: the call that is carried out is the edited one, not the text that the model wrote."""
    chosen = {"provider": "openai", "approve_plan": True}
    model.script(Say(calls=[("c2", "create_music_draft", "{adId: 'kopi', prompt: 'piano',}")]), SAY_DONE)
    [asked] = (await graph.ainvoke(brief_input(), config(), context=chosen))["__interrupt__"]
    assert asked.value["action_requests"][0]["args"] == {"adId": "kopi", "prompt": "piano"}
    answer = {"decisions": [{"type": "edit", "edited_action": EDITED}]}
    await graph.ainvoke(Command(resume=answer), config(), context=chosen)
    assert (await stream(opened, "music")).versions[0].data["musicPrompt"] == "solo cello"


async def test_the_arguments_that_a_person_sees_are_those_that_the_tool_gets(graph, model, opened):
    """C-R1: an argument that the tool drops would make the call look narrower than it is."""
    chosen = {"provider": "openai", "approve_plan": True}
    music = call("c2", "create_music_draft", prompt="piano", onlyTheEnding=True, duration="20")
    model.script(Say(calls=[music]), SAY_DONE)
    [asked] = (await graph.ainvoke(brief_input(), config(), context=chosen))["__interrupt__"]
    assert asked.value["action_requests"][0]["args"] == {"prompt": "piano", "duration": 20}
    await graph.ainvoke(Command(resume="yes"), config(), context=chosen)
    assert (await stream(opened, "music")).versions[0].data["musicPrompt"] == "piano"
