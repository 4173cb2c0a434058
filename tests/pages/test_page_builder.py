"""The workflow `page_builder`: messages become versions of a page, and deletions need approval."""

import json
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import Command

from callsheet.graphs import page_builder
from callsheet.state.owners import LOCAL
from callsheet.state.pages import history
from callsheet.state.pages.check import PageCheck, check_page
from callsheet.state.pages.history import STARTER
from callsheet.state.pages.page import Page
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact, OldVersions
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.redis.scripts import read_time_ms
from tests.doubles.chat_double import ChatDouble, Say
from tests.pages.page_double import same_page

OFFLINE = {"provider": "offline"}
OPENAI = {"provider": "openai"}
CONFIG: RunnableConfig = {"configurable": {"thread_id": "page-chat"}}
Graph = Pregel[Any, Any]


@pytest.fixture
def builder(opened: Storage) -> Graph:
    return page_builder.graph.copy(update={"checkpointer": RedisSaver(opened.redis)})


async def send_message(graph: Graph, text: str, context: Any = None, **more: Any) -> dict[str, Any]:
    turn_input = {"messages": [{"role": "user", "content": text}], "page_id": "shop", **more}
    state: dict[str, Any] = await graph.ainvoke(
        turn_input, CONFIG, context=context or OFFLINE, durability="sync"
    )
    return state


async def current_page(opened: Storage) -> Page:
    return history.page_of((await Artefact(opened, "page", "shop", LOCAL).stream("page")).newest())


def call_reply(*named: tuple[str, dict[str, Any]]) -> Say:
    return Say(calls=[(f"c{i}", name, json.dumps(args)) for i, (name, args) in enumerate(named)])


def rules_met(page: Page) -> list[PageCheck]:
    return [one for one in check_page(page, ()) if one["verdict"] == "pass"]


def tool_results(state: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(message.text) for message in state["messages"] if message.type == "tool"]


async def test_a_message_makes_a_version_and_undo_reverts_it(builder: Graph, opened: Storage) -> None:
    """C10, C27, C-R12: the page is read before it is changed."""
    state = await send_message(builder, "Make the headline teal and add a contact form below the features")
    names = [call["name"] for message in state["messages"] for call in getattr(message, "tool_calls", ())]
    assert names == ["list_elements", "modify_element", "create_element"]
    assert state["drafts"] == {"page": "v2"}
    new_page = await current_page(opened)
    assert new_page.get("heading-1").style["color"] == "teal"
    assert [one.id for one in new_page.root.children][-2:] == ["section-3", "footer-1"]
    await send_message(builder, "undo that")
    assert same_page(await current_page(opened), STARTER)


async def test_the_model_is_shown_the_description_of_the_page_and_sets_it(
    builder: Graph, opened: Storage, model: ChatDouble
) -> None:
    """The check before publishing wants one; it is a change like any other, and undone like one."""
    words = "Bread from our oven at four each day, in the old town of Lyon, for all who rise early."
    change = {"elementId": "page", "modifications": {"attributes": {"description": words}}}
    model.script(call_reply(("modify_element", change)), Say("It has a description now."), Say("Yes?"))
    await send_message(builder, "Describe it for search engines", OPENAI)
    [first, *_] = model.requests
    assert "\npage (no title, no description)\n" in first.messages[-1]["content"]
    tools = {one["function"]["name"]: one["function"] for one in first.body["tools"]}
    assert "description (50 to 160 characters" in json.dumps(tools["modify_element"])
    assert "description" in {one["rule"] for one in rules_met(await current_page(opened))}
    await send_message(builder, "Thanks", OPENAI)
    assert f'page (no title, description "{words[:59]}…")' in model.requests[-1].messages[-1]["content"]
    await send_message(builder, "undo that")
    assert same_page(await current_page(opened), STARTER)


async def test_undo_ends_in_plain_words_where_the_version_before_is_removed(
    builder: Graph, opened: Storage
) -> None:
    for colour in ("red", "blue", "green"):
        await send_message(builder, f"make the headline {colour}")
    old = OldVersions("page", 2, (), await read_time_ms(opened.redis) + 60_000, "v3")
    await Artefact(opened, "page", "shop", LOCAL).remove_old_versions(old, 0, 100)
    await send_message(builder, "undo that")
    state = await send_message(builder, "undo that")
    assert state["messages"][-1].additional_kwargs["receipt"]["problems"] == [
        "undo ends here: the version before is not kept any more"
    ]
    state = await send_message(builder, "undo the last 2 changes")
    assert tool_results(state)[-1]["error"] == "undo ends here: the version before is not kept any more"
    await send_message(builder, "make the headline pink")
    state = await send_message(builder, "undo the last 2 changes")
    refused = tool_results(state)[-1]
    assert refused["error"] == "undo ends after 1 change: the version before is not kept any more"
    assert refused["suggestion"] == "undo 1, or fewer"


async def test_the_word_this_means_the_selected_element(builder: Graph, opened: Storage) -> None:
    """C26."""
    state = await send_message(builder, "make this red")
    assert "nothing is selected" in state["messages"][-1].text
    await send_message(builder, "make this orange", selected_element_id="section-2")
    assert (await current_page(opened)).get("section-2").style["background-color"] == "orange"


async def test_a_deletion_waits_for_approval_and_nothing_is_written_before(
    builder: Graph, opened: Storage
) -> None:
    """C-R1."""
    state = await send_message(builder, "make the headline red and delete the features section")
    [question] = state["__interrupt__"]
    [action] = question.value["action_requests"]
    assert (action["name"], action["args"]) == ("delete_element", {"elementId": "section-2"})
    assert question.value["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject"]
    assert same_page(await current_page(opened), STARTER)
    state = await builder.ainvoke(
        Command(resume={"decisions": [{"type": "approve"}]}), CONFIG, context=OFFLINE
    )
    assert (await current_page(opened)).find("section-2") is None
    assert (await current_page(opened)).get("heading-1").style["color"] == "red"


@pytest.mark.parametrize(
    ("args", "description"),
    [
        ('{"elementId": "section-2"}', "the section “Features” (section-2)"),
        ('{"elementId": "card-3"}', "the card “Third reason” (card-3)"),
        ('{"elementId": "nav-1"}', "the navigation “Navigation” (nav-1)"),
        ('{"elementId": "text-2"}', "the text “Then say in a sentence or two why it ma…” (text-2)"),
        ('{"elementId": "this"}', "the button “Get started” (button-1)"),
        ("{elementId: 'footer-1',}", "the footer “Footer” (footer-1)"),
    ],
)
async def test_the_question_describes_the_element_to_delete(
    builder: Graph, model: ChatDouble, args: str, description: str
) -> None:
    """C-R1: with the page's label, also where the arguments are almost JSON."""
    model.script(Say(calls=[("c0", "delete_element", args)]))
    state = await send_message(builder, "delete it", OPENAI, selected_element_id="button-1")
    [action] = state["__interrupt__"][0].value["action_requests"]
    assert action["description"] == f"Deleting from the page: {description}"
    assert action["args"].keys() == {"elementId"}


async def test_the_question_describes_an_element_by_its_current_label(
    builder: Graph, model: ChatDouble
) -> None:
    renamed = {"elementId": "section-2", "modifications": {"label": "Why choose us"}}
    deletion = ("delete_element", {"elementId": "section-2"})
    model.script(call_reply(("modify_element", renamed)), call_reply(deletion))
    state = await send_message(builder, "call it something else, then delete it", OPENAI)
    [action] = state["__interrupt__"][0].value["action_requests"]
    assert action["description"] == "Deleting from the page: the section “Why choose us” (section-2)"


async def test_the_question_about_a_step_without_an_element_has_only_its_name(
    builder: Graph, model: ChatDouble
) -> None:
    model.script(call_reply(("clear_page", {})))
    state = await send_message(builder, "start over", OPENAI)
    action = state["__interrupt__"][0].value["action_requests"]
    assert [one["description"] for one in action] == ["Emptying the page"]


@pytest.mark.parametrize(
    "args", ['{"elementId": "sec', '{"elementId": "gone-1"}', '{"elementId": ["card-1"]}']
)
async def test_arguments_that_cannot_be_carried_out_lead_to_no_question(
    builder: Graph, model: ChatDouble, args: str
) -> None:
    """C-R1: the call goes back to the model with the reason."""
    model.script(Say(calls=[("c0", "delete_element", args)]), *[Say("I cannot.")] * 2)
    state = await send_message(builder, "delete it", OPENAI)
    assert "__interrupt__" not in state
    assert [one["type"] for one in tool_results(state)] == ["validation_error"]


async def test_a_refused_deletion_is_skipped_and_other_steps_are_executed(
    builder: Graph, opened: Storage
) -> None:
    await send_message(builder, "make the headline red and delete the features section")
    state = await builder.ainvoke(Command(resume="no, keep it"), CONFIG, context=OFFLINE)
    assert "__interrupt__" not in state
    assert (await current_page(opened)).find("section-2") is not None
    assert (await current_page(opened)).get("heading-1").style["color"] == "red"
    assert "said no" in state["messages"][-1].text


async def test_a_rejected_call_is_not_offered_again_in_the_turn(
    builder: Graph, model: ChatDouble, opened: Storage
) -> None:
    """Alone or among other calls."""
    deletion = ("delete_element", {"elementId": "section-2"})
    model.script(call_reply(deletion))
    await send_message(builder, "delete the features", OPENAI)
    model.script(
        call_reply(("modify_element", {"elementId": "text-1", "modifications": {"content": "x"}}), deletion)
    )
    state = await builder.ainvoke(
        Command(resume={"decisions": [{"type": "reject", "message": "never"}]}), CONFIG, context=OPENAI
    )
    assert "__interrupt__" not in state
    assert tool_results(state)[-1]["details"] == {"rejected": True}
    assert state["messages"][-1].type == "ai"
    assert not state["messages"][-1].tool_calls
    assert same_page(await current_page(opened), STARTER)


async def test_the_loop_ends_after_the_maximum_of_rounds(
    builder: Graph, model: ChatDouble, opened: Storage
) -> None:
    """C8."""
    model.script(*[call_reply(("list_elements", {}))] * 3, Say("enough"))
    state = await send_message(builder, "look and look", {**OPENAI, "max_rounds": 3})
    assert state["rounds"] == 4
    assert state["messages"][-1].text.partition("\n\n")[0] == "enough"
    assert model.requests[-1].body["tool_choice"] == "none"


async def test_invalid_calls_get_errors_and_the_turn_continues(
    builder: Graph, model: ChatDouble, opened: Storage
) -> None:
    """C25, C33, C38."""
    model.script(
        call_reply(
            ("paint_page", {}),
            ("read_element", {}),
            ("modify_element", {"elementId": "heading-9", "modifications": {"content": "x"}}),
        ),
        *[Say("sorry")] * 2,
    )
    state = await send_message(builder, "do odd things", OPENAI)
    assert [one["type"] for one in tool_results(state)] == [
        "unknown_tool",
        "validation_error",
        "validation_error",
    ]
    assert all(one["error"] and one["suggestion"] for one in tool_results(state))
    assert same_page(await current_page(opened), STARTER)


def test_the_graph_is_compiled_without_a_checkpointer_and_has_its_nodes() -> None:
    assert page_builder.graph.checkpointer is None
    assert {"planner", "approval", "tool_executor", "summarizer"} <= set(page_builder.graph.get_graph().nodes)
    for schema in (page_builder.graph.get_input_jsonschema(), page_builder.graph.get_output_jsonschema()):
        assert "selected_element_id" in schema["properties"]
