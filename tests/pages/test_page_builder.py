"""The workflow `page_builder`: words in, versions of a page out; a person is asked before a deletion."""

import json
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import Command

from callsheet.graphs import page_builder
from callsheet.state.owners import LOCAL
from callsheet.state.pages import history
from callsheet.state.pages.page import Page
from callsheet.state.pages.starter import STARTER
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.checkpoints import RedisSaver
from tests.doubles.chat_double import ChatDouble, Say
from tests.pages.page_double import same_page

OFFLINE = {"provider": "offline"}
OPENAI = {"provider": "openai"}
CONFIG: RunnableConfig = {"configurable": {"thread_id": "page-chat"}}
Graph = Pregel[Any, Any]


@pytest.fixture
def builder(opened: Storage) -> Graph:
    return page_builder.graph.copy(update={"checkpointer": RedisSaver(opened.redis)})


async def said(graph: Graph, text: str, chosen: Any = None, **more: Any) -> dict[str, Any]:
    given = {"messages": [{"role": "user", "content": text}], "page_id": "shop", **more}
    state: dict[str, Any] = await graph.ainvoke(given, CONFIG, context=chosen or OFFLINE, durability="sync")
    return state


async def page(opened: Storage) -> Page:
    return history.page_of((await Artefact(opened, "page", "shop", LOCAL).stream("page")).newest())


def calls(*named: tuple[str, dict[str, Any]]) -> Say:
    return Say(calls=[(f"c{i}", name, json.dumps(args)) for i, (name, args) in enumerate(named)])


def answers(state: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(message.text) for message in state["messages"] if message.type == "tool"]


async def test_a_sentence_becomes_a_version_and_undo_takes_it_back(builder: Graph, opened: Storage) -> None:
    """C10, C27, C-R12: it looks before it writes."""
    state = await said(builder, "Make the headline teal and add a contact form below the features")
    names = [call["name"] for message in state["messages"] for call in getattr(message, "tool_calls", ())]
    assert names == ["list_elements", "modify_element", "create_element"]
    assert state["drafts"] == {"page": "v2"}
    made = await page(opened)
    assert made.get("heading-1").style["color"] == "teal"
    assert [one.id for one in made.root.children][-2:] == ["section-3", "footer-1"]
    await said(builder, "undo that")
    assert same_page(await page(opened), STARTER)


async def test_this_is_what_the_person_has_selected(builder: Graph, opened: Storage) -> None:
    """C26."""
    state = await said(builder, "make this red")
    assert "nothing is selected" in state["messages"][-1].text
    await said(builder, "make this orange", selected_element_id="section-2")
    assert (await page(opened)).get("section-2").style["background-color"] == "orange"


async def test_a_deletion_waits_for_a_person_and_nothing_is_written_before(
    builder: Graph, opened: Storage
) -> None:
    """C-R1."""
    state = await said(builder, "make the headline red and delete the features section")
    [question] = state["__interrupt__"]
    [asked] = question.value["action_requests"]
    assert (asked["name"], asked["args"]) == ("delete_element", {"elementId": "section-2"})
    assert question.value["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject"]
    assert same_page(await page(opened), STARTER)
    state = await builder.ainvoke(
        Command(resume={"decisions": [{"type": "approve"}]}), CONFIG, context=OFFLINE
    )
    assert (await page(opened)).find("section-2") is None
    assert (await page(opened)).get("heading-1").style["color"] == "red"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ('{"elementId": "section-2"}', "the section “Features” (section-2)"),
        ('{"elementId": "card-3"}', "the card “Third reason” (card-3)"),
        ('{"elementId": "nav-1"}', "the navigation “Navigation” (nav-1)"),
        ('{"elementId": "text-2"}', "the text “Then say in a sentence or two why it ma…” (text-2)"),
        ('{"elementId": "this"}', "the button “Get started” (button-1)"),
        ("{elementId: 'footer-1',}", "the footer “Footer” (footer-1)"),
        ('{"elementId": "gone-1"}', "gone-1"),
    ],
)
async def test_a_person_who_is_asked_is_told_what_it_is(
    builder: Graph, model: ChatDouble, args: str, told: str
) -> None:
    """C-R1: as the page calls it, and also where the model wrote what is only nearly JSON."""
    model.script(Say(calls=[("c0", "delete_element", args)]))
    state = await said(builder, "delete it", OPENAI, selected_element_id="button-1")
    [asked] = state["__interrupt__"][0].value["action_requests"]
    assert asked["description"] == f"Deleting from the page: {told}"
    assert asked["args"].keys() == {"elementId"}


async def test_a_person_is_asked_by_what_the_page_says_now(builder: Graph, model: ChatDouble) -> None:
    renamed = {"elementId": "section-2", "modifications": {"label": "Why choose us"}}
    gone = ("delete_element", {"elementId": "section-2"})
    model.script(calls(("modify_element", renamed)), calls(gone))
    state = await said(builder, "call it something else, then delete it", OPENAI)
    [asked] = state["__interrupt__"][0].value["action_requests"]
    assert asked["description"] == "Deleting from the page: the section “Why choose us” (section-2)"


async def test_a_step_about_no_element_is_asked_about_by_its_name_alone(
    builder: Graph, model: ChatDouble
) -> None:
    wrong = ("delete_element", {"elementId": ["section-2"]})
    model.script(calls(("clear_page", {}), wrong))
    state = await said(builder, "start over", OPENAI)
    asked = state["__interrupt__"][0].value["action_requests"]
    assert [one["description"] for one in asked] == ["Emptying the page", "Deleting from the page"]


async def test_what_cannot_be_read_is_asked_about_as_it_is(builder: Graph, model: ChatDouble) -> None:
    model.script(Say(calls=[("c0", "delete_element", '{"elementId": "sec')]))
    state = await said(builder, "delete it", OPENAI)
    [asked] = state["__interrupt__"][0].value["action_requests"]
    assert (asked["args"], asked["description"]) == ({}, "Deleting from the page")


async def test_a_no_leaves_what_was_to_go_and_does_the_rest(builder: Graph, opened: Storage) -> None:
    await said(builder, "make the headline red and delete the features section")
    state = await builder.ainvoke(Command(resume="no, keep it"), CONFIG, context=OFFLINE)
    assert "__interrupt__" not in state
    assert (await page(opened)).find("section-2") is not None
    assert (await page(opened)).get("heading-1").style["color"] == "red"
    assert "said no" in state["messages"][-1].text


async def test_a_model_that_will_not_take_no_is_stopped(
    builder: Graph, model: ChatDouble, opened: Storage
) -> None:
    """A rejected call is not asked for again in the turn, alone or among others."""
    gone = ("delete_element", {"elementId": "section-2"})
    model.script(calls(gone))
    await said(builder, "delete the features", OPENAI)
    model.script(calls(("modify_element", {"elementId": "text-1", "modifications": {"content": "x"}}), gone))
    state = await builder.ainvoke(
        Command(resume={"decisions": [{"type": "reject", "message": "never"}]}), CONFIG, context=OPENAI
    )
    assert "__interrupt__" not in state
    assert answers(state)[-1]["details"] == {"rejected": True}
    assert state["messages"][-1].type == "ai"
    assert not state["messages"][-1].tool_calls
    assert same_page(await page(opened), STARTER)


async def test_the_loop_ends_at_its_bound(builder: Graph, model: ChatDouble, opened: Storage) -> None:
    """C8."""
    model.script(*[calls(("list_elements", {}))] * 3, Say("enough"))
    state = await said(builder, "look and look", {**OPENAI, "max_rounds": 3})
    assert state["rounds"] == 4
    assert state["messages"][-1].text == "enough"
    assert model.requests[-1].body["tool_choice"] == "none"


async def test_what_a_model_calls_wrongly_is_answered_and_the_turn_goes_on(
    builder: Graph, model: ChatDouble, opened: Storage
) -> None:
    """C25, C33, C38."""
    model.script(
        calls(
            ("paint_page", {}),
            ("read_element", {}),
            ("modify_element", {"elementId": "heading-9", "modifications": {"content": "x"}}),
        ),
        Say("sorry"),
    )
    state = await said(builder, "do odd things", OPENAI)
    assert [one["type"] for one in answers(state)] == ["unknown_tool", "validation_error", "validation_error"]
    assert all(one["error"] and one["suggestion"] for one in answers(state))
    assert same_page(await page(opened), STARTER)


def test_the_graph_is_compiled_without_storage_and_shows_its_steps() -> None:
    assert page_builder.graph.checkpointer is None
    assert {"planner", "approval", "tool_executor", "summarizer"} <= set(page_builder.graph.get_graph().nodes)
    for schema in (page_builder.graph.get_input_jsonschema(), page_builder.graph.get_output_jsonschema()):
        assert "selected_element_id" in schema["properties"]
