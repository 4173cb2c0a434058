"""Prompts: their length, their rules, and the hash that names a version."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from callsheet.graphs import ad_creation, campaign_search, fact_narration, page_builder, scene_edit
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.tokens import estimate_text
from callsheet.tools.registry import definition
from tests.doubles.chat_double import ChatDouble, Say

WORKFLOWS = [one.WORKFLOW for one in (ad_creation, campaign_search, fact_narration, page_builder, scene_edit)]
MAX_TOKENS = 1_200
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.name)
def test_a_prompt_is_short(workflow: WorkflowSpec[Any]) -> None:
    """A65: it takes nothing of a thread, so that providers cache it across threads."""
    assert 300 < estimate_text(workflow.prompt) <= MAX_TOKENS


@pytest.mark.parametrize(
    ("workflow", "parts"),
    [
        # A62, A63: role, tools, plan before casting.
        (ad_creation, ["creative director", "Plan before you cast", *ad_creation.WORKFLOW.tools]),
        # A77, A79, A34: variations, all three streams, drafts are not on air.
        (ad_creation, ["Several variations", '"more urgent"', "A person activates a version"]),
        # B14, B21, B57.
        (fact_narration, ["expert educational assistant", "ALWAYS call extractFactsTool", "at 10"]),
        (page_builder, ["Contrast", "Phone first", "One primary action", "a call of its own"]),
    ],
)
def test_a_prompt_has_its_rules_and_its_advice(workflow: Any, parts: list[str]) -> None:
    prompt = workflow.WORKFLOW.prompt
    assert [part for part in parts if part not in prompt] == []


@pytest.mark.parametrize("file", sorted(ROOT.glob("[a-z]*/**/prompts/*.md")), ids=lambda one: one.name)
def test_every_prompt_is_a_file_of_at_most_1200_tokens(file: Path) -> None:
    """Those of workflows, and the inner ones of tools."""
    assert 0 < estimate_text(file.read_text()) <= MAX_TOKENS


@pytest.mark.parametrize(
    ("workflow", "names"),
    [(fact_narration, ["facts", "quiz", "script", "sentences"]), (scene_edit, ["add_scene", "edit_scene"])],
)
def test_the_prompts_of_tools_are_named_with_their_hash(workflow: Any, names: list[str]) -> None:
    """A75: the metadata of checkpoints and traces has them."""
    versions = workflow.graph.config["metadata"]["tool_prompts"].split(", ")
    assert [one.partition("@")[0] for one in versions] == names
    assert {len(one.partition("@")[2]) for one in versions} == {12}


async def test_every_checkpoint_has_the_version_of_its_prompt(graph: Any, model: ChatDouble) -> None:
    """A75: results of two prompts can be distinguished."""
    model.script(Say("What is the ad for?"))
    config = {"configurable": {"thread_id": "kopi"}}
    await graph.ainvoke({"messages": [HumanMessage("Hi?")]}, config, context={"provider": "openai"})
    metadata = (await graph.aget_state(config)).metadata
    assert metadata["prompt"] == ad_creation.WORKFLOW.prompt_version
    name, _, digest = ad_creation.WORKFLOW.prompt_version.partition("@")
    assert (name, len(digest)) == ("ad_creation", 12)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.name)
def test_what_a_prompt_names_as_code_is_a_tool_an_argument_or_a_value(workflow: WorkflowSpec[Any]) -> None:
    """A field that does not exist is dropped from the model's arguments."""
    offered = json.dumps([definition(one) for one in workflow.tools.values()])
    named = re.findall(r"`([\w.]+)`", workflow.prompt)
    assert [one for one in named if not re.search(rf"\b{one}\b", offered)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.name)
def test_limits_of_numbers_are_words_of_json_schema(workflow: WorkflowSpec[Any]) -> None:
    offered = json.dumps([definition(one) for one in workflow.tools.values()])
    assert re.findall(r'"(?:ge|le|gt|lt|min_length|max_length)":', offered) == []


PAIRS = (
    # An instruction, and one that sends the model for what <state> spares it.
    ("<state>", "before a change, because"),
    ("<state>", "or list_elements first"),
    ("<state>", "Call it before an edit"),
    ('like: ["scene-3"]', "first contextGatherer"),
    # One step for several scenes, and several.
    ("names every scene", "three edits"),
    # What is not set stays, and a look before every change.
    ("Everything else stays as it is", "before you change them"),
    # An example of an id that the page has may be copied.
    ("as in <state>", "such as heading-1;"),
    # The versions that it reads, and those that it is for.
    ("use it for earlier", "Read the newest"),
    # A choice leads to the narration by itself, and facts to copy into the call.
    ("by itself", "The chosen facts;"),
    # Easier words of a part are guidance, of all the level.
    ("put what is wanted into guidance. ", "move the level"),
)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.name)
def test_prompt_and_tools_do_not_contradict_each_other(workflow: Any) -> None:
    """A75, C26: prompts, descriptions and errors are read together, as a model reads them."""
    tools = {**workflow.tools, **workflow.internal_tools}
    described = [json.dumps(definition(one), ensure_ascii=False) for one in tools.values()]
    text = "\n".join([workflow.prompt, *described])
    assert [pair for pair in PAIRS if all(part in text for part in pair)] == []


async def test_an_error_about_arguments_shows_the_right_call_with_the_given_values(
    graph: Any, model: ChatDouble
) -> None:
    """A27: it may be corrected, so it is retryable."""
    wrong = {"prompts": [{"description": "rain on leaves", "duration": 0, "volume": 3}]}
    calls = [("c1", "create_sfx_draft", json.dumps(wrong))]
    model.script(Say(calls=calls), *[Say("What is the ad for?")] * 2)
    config = {"configurable": {"thread_id": "kopi"}}
    state = await graph.ainvoke({"messages": [HumanMessage("Rain?")]}, config, context={"provider": "openai"})
    result = json.loads(state["messages"][-2].text)
    assert (result["type"], result["retryable"]) == ("validation_error", True)
    example = '{"prompts": [{"description": "rain on leaves", "duration": 1.0}]}'
    assert example in result["suggestion"]
