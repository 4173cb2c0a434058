"""The lean profile: few flat tools, a short prompt and ids to choose from, for small models (A39, A65)."""

import json
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig

from callsheet.graphs import ad_creation, campaign_search, fact_narration, page_builder, scene_edit
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.errors import RequestRejected
from callsheet.state.owners import LOCAL
from callsheet.state.pages import history
from callsheet.state.tokens import estimate_text
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.checkpoints import RedisSaver
from tests.doubles.chat_double import ChatDouble, Fail, Say
from tests.lessons.lesson_material import material

CONFIG: RunnableConfig = {"configurable": {"thread_id": "lean"}}
SMALL = "compatible/qwen2.5-coder-1.5b-instruct"
WORKFLOWS = [one.WORKFLOW for one in (ad_creation, fact_narration, page_builder, scene_edit, campaign_search)]


class LeanChat:
    """A conversation with a workflow's graph and a scripted local model."""

    def __init__(self, opened: Storage, double: ChatDouble, workflow: WorkflowSpec[Any], model: str) -> None:
        self.graph = workflow.graph.copy(update={"checkpointer": RedisSaver(opened.redis)})
        self.artefact = Artefact(opened, workflow.artefact.kind, "lean", LOCAL)
        self.double = double
        self.model = model

    async def send(
        self, text: str, *replies: Say | Fail, tool_choice: Any = "auto", **graph_input: Any
    ) -> dict[str, Any]:
        """Return the state after a message to which the model gives these answers."""
        self.double.script(*replies)
        turn = {"messages": [{"role": "user", "content": text}], **graph_input}
        state: dict[str, Any] = await self.graph.ainvoke(
            turn, CONFIG, context={"model": self.model, "tool_choice": tool_choice}, durability="sync"
        )
        assert self.double.unused == 0
        return state

    async def newest(self, stream: str) -> Any:
        version = (await self.artefact.stream_head(stream)).newest
        return version.data if version else None

    def offer_of(self, at: int = -1) -> dict[str, dict[str, Any]]:
        """Properties of the tools of a request, by name, from its tools or its schema."""
        body = self.double.requests[at].body
        if "response_format" in body:
            calls = [one["properties"] for one in body["response_format"]["json_schema"]["schema"]["anyOf"]]
            return {one["tool"]["const"]: {k: v for k, v in one.items() if k != "tool"} for one in calls}
        functions = [one["function"] for one in body["tools"]]
        return {one["name"]: one["parameters"]["properties"] for one in functions}


@pytest.fixture
def start(opened: Storage, model: ChatDouble, monkeypatch: pytest.MonkeyPatch) -> Any:
    for prefix in ("COMPATIBLE", "OLLAMA"):
        for name, value in model.environ_of(prefix, MODEL="unknown").items():
            monkeypatch.setenv(name, value)

    def chat(workflow: WorkflowSpec[Any], spec: str = SMALL) -> LeanChat:
        return LeanChat(opened, model, workflow, spec)

    return chat


def call(name: str, **args: Any) -> Say:
    """A call as a server with a grammar sends it: one JSON object."""
    return Say(json.dumps({"tool": name, **args}))


def tool_call(name: str, **args: Any) -> Say:
    """A call as a server without a grammar sends it."""
    return Say(calls=[("c1", name, json.dumps(args))])


@pytest.fixture
def without_grammar(monkeypatch: pytest.MonkeyPatch) -> str:
    """A model whose server keeps answers to no schema, with the lean profile."""
    monkeypatch.setenv("OPENAI_PROFILE", "lean")
    return "openai"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.name)
def test_a_lean_prompt_has_at_most_250_tokens(workflow: WorkflowSpec[Any]) -> None:
    assert 50 < estimate_text(workflow.lean_prompt) <= 250


async def test_a_small_model_edits_a_page_with_one_json_object_a_round(start: Any) -> None:
    chat = start(page_builder.WORKFLOW)
    state = await chat.send(
        "The headline is Fresh bread, in red",
        call("change", element="heading-1", what="text", value="Fresh bread"),
        call("change", element="heading-1", what="color", value="red"),
        call("change", element="button-1", what="link", value="#form-1"),
        call("add", kind="text", text="Every day from six.", behind="section-1"),
        call("add", kind="text", text="Closed on Mondays.", behind="heading-1"),
        call("answer", text="The headline is red now."),
    )
    assert state["messages"][-1].text == "The headline is red now."
    shown = history.page_of((await chat.artefact.stream_head("page")).newest)
    assert (shown.get("heading-1").content, shown.get("heading-1").style["color"]) == ("Fresh bread", "red")
    assert shown.get("button-1").attributes["href"] == "#form-1"
    texts = [one.content for one in shown.get("section-1").children]
    assert texts[-1] == "Every day from six."
    assert texts[texts.index("Fresh bread") + 1] == "Closed on Mondays."
    first = chat.double.requests[0]
    assert (first.body["temperature"], "tools" in first.body) == (0, False)
    assert list(chat.offer_of(0)) == ["change", "add", "answer", "more_options"]
    assert "heading-1" in chat.offer_of(0)["change"]["element"]["enum"]
    assert first.messages[0]["content"].startswith(page_builder.WORKFLOW.lean_prompt)
    assert first.messages[-1]["content"].startswith("<state>\n")
    assert first.messages[-1]["content"].endswith("</state>\n\nThe headline is Fresh bread, in red")
    for form in first.body["response_format"]["json_schema"]["schema"]["anyOf"]:
        assert form["required"] == list(form["properties"])
    called = [one["name"] for message in state["messages"] for one in getattr(message, "tool_calls", ())]
    assert called == ["modify_element"] * 3 + ["create_element"] * 2, (
        "the conversation has the workflow's tools"
    )
    roles = [one["role"] for one in chat.double.requests[-1].messages]
    assert roles == ["system", *["user", "assistant"] * (3 + 5), "user"], "three examples come first"


EDIT = {"element": "heading-1", "what": "text", "value": "Fresh bread"}
FLAT = json.dumps({"tool": "change", **EDIT})


@pytest.mark.parametrize("written", [f"```json\n{FLAT}\n```", f"[{FLAT}]", f"{FLAT}\n{FLAT}"])
async def test_a_server_that_ignores_the_schema_may_fence_or_list_the_call(start: Any, written: str) -> None:
    chat = start(page_builder.WORKFLOW)
    state = await chat.send("The headline is Fresh bread", Say(written), call("answer", text="It is."))
    assert state["messages"][-1].text == "It is."
    shown = history.page_of((await chat.artefact.stream_head("page")).newest)
    assert shown.get("heading-1").content == "Fresh bread"
    assert ["tools" in one.body for one in chat.double.requests] == [False, False]


async def test_a_flat_call_that_a_model_with_tools_writes_as_text_is_carried_out(
    start: Any, without_grammar: str
) -> None:
    """It had been shown to the person as the answer."""
    chat = start(page_builder.WORKFLOW, without_grammar)
    state = await chat.send("The headline is Fresh bread", Say(FLAT), call("answer", text="It is."))
    assert state["messages"][-1].text == "It is."
    shown = history.page_of((await chat.artefact.stream_head("page")).newest)
    assert shown.get("heading-1").content == "Fresh bread"


async def test_half_a_surrogate_pair_in_a_written_call_is_replaced(start: Any) -> None:
    chat = start(page_builder.WORKFLOW)
    half = call("change", **{**EDIT, "value": "Bread \ud83d"})
    await chat.send("The headline is Bread", half, call("answer", text="It is."))
    shown = history.page_of((await chat.artefact.stream_head("page")).newest)
    assert shown.get("heading-1").content == "Bread \ufffd"


async def test_without_a_grammar_a_small_model_calls_flat_tools(start: Any, without_grammar: str) -> None:
    chat = start(page_builder.WORKFLOW, without_grammar)
    two = [
        ("c1", "change", json.dumps({"element": "heading-1", "what": "text", "value": "Fresh bread"})),
        ("c2", "change", json.dumps({"element": "heading-1", "what": "color", "value": "red"})),
    ]
    state = await chat.send(
        "The headline is Fresh bread, in red",
        Say(calls=two),
        tool_call("change", element="heading-1", what="color", value="red"),
        tool_call("answer", text="The headline is red now."),
    )
    assert state["messages"][-1].text == "The headline is red now."
    shown = history.page_of((await chat.artefact.stream_head("page")).newest)
    assert (shown.get("heading-1").content, shown.get("heading-1").style["color"]) == ("Fresh bread", "red")
    assert chat.double.requests[0].body["tool_choice"] == "required"
    assert list(chat.offer_of(0)) == ["change", "add", "answer", "more_options"]


@pytest.mark.parametrize("answer", [Fail(400, "response_format is not supported"), Say("Sure, done!")])
async def test_a_server_that_ignores_or_refuses_the_schema_is_offered_tools_from_then_on(
    start: Any, answer: Say | Fail
) -> None:
    chat = start(page_builder.WORKFLOW, f"compatible/other-{type(answer).__name__.lower()}-1.5b")
    times = 1 if isinstance(answer, Fail) else 2
    for _ in range(times):
        await chat.send("Who are you?", answer, tool_call("answer", text="A page builder."))
    await chat.send("Who made you?", tool_call("answer", text="People."))
    formats = ["response_format" in one.body for one in chat.double.requests]
    assert formats == [*[True, False] * times, False]


async def test_an_answer_that_is_cut_off_in_the_object_is_requested_again(start: Any) -> None:
    chat = start(page_builder.WORKFLOW)
    cut = Say('{"tool": "change", "element": "heading', finish="length")
    change = call("change", element="heading-1", what="color", value="red")
    state = await chat.send("Make it red", cut, change, call("answer", text="It is red."))
    assert state["messages"][-1].text == "It is red."
    assert "cut off at the length limit" in chat.double.requests[1].messages[-1]["content"]
    assert [one["status"] for one in state["results"]] == ["completed"]


async def test_more_options_offers_all_tools_in_the_same_round(start: Any) -> None:
    chat = start(page_builder.WORKFLOW)
    theme = tool_call("apply_theme", theme="dark", tokens={})
    state = await chat.send("Make it dark", call("more_options"), theme, call("answer", text="It is dark."))
    assert state["messages"][-1].text == "It is dark."
    assert chat.offer_of(1).keys() == page_builder.WORKFLOW.tools.keys()
    assert chat.double.requests[1].body["tool_choice"] == "auto"
    assert not [one for one in state["messages"] if "more_options" in str(getattr(one, "tool_calls", ""))]
    assert state["usage"]["calls"] == 3


async def test_broken_arguments_of_a_lean_call_go_back_to_the_model(start: Any, without_grammar: str) -> None:
    chat = start(page_builder.WORKFLOW, without_grammar)
    state = await chat.send(
        "Change it",
        Say(calls=[("c1", "change", '{"element": "heading-1')]),
        Say(calls=[("c2", "change_all", "{")]),
        Say("I could not do that."),
        Say("I could not do that."),
    )
    results = [json.loads(one.text) for one in state["messages"] if one.type == "tool"]
    assert [one["type"] for one in results] == ["validation_error", "unknown_tool"]
    assert state["messages"][-1].text.startswith("I could not do that.\n\nNothing was changed: ")


async def test_a_server_that_cannot_force_a_call_gets_another_request(
    start: Any, without_grammar: str
) -> None:
    chat = start(page_builder.WORKFLOW, without_grammar)
    state = await chat.send(
        "Who are you?", Fail(400, "tool_choice required is not supported"), Say("Hello! What shall I change?")
    )
    assert state["messages"][-1].text.startswith("Hello! What shall I change?")
    await chat.send("Who made you?", Say("A machine."))
    choices = [one.body["tool_choice"] for one in chat.double.requests]
    assert choices == ["required", "auto", "auto"], "the server is not asked for it again"


async def test_a_named_tool_is_offered_to_a_small_model_too(start: Any) -> None:
    chat = start(page_builder.WORKFLOW)
    choice = {"type": "function", "function": {"name": "apply_theme"}}
    theme = tool_call("apply_theme", theme="dark", tokens={})
    await chat.send("Make it dark", theme, call("answer", text="It is dark."), tool_choice=choice)
    assert "apply_theme" in chat.offer_of(0)
    assert chat.double.requests[0].body["tool_choice"] == choice


async def test_a_small_model_is_sent_its_own_words_with_the_second_request(start: Any) -> None:
    chat = start(page_builder.WORKFLOW)
    await chat.send("Make it blue", *[call("answer", text="It is blue.")] * 2)
    assert chat.double.requests[1].messages[-2] == {"role": "assistant", "content": "It is blue."}


async def test_a_small_model_writes_an_ad_and_rewrites_one_track_of_it(start: Any) -> None:
    """A64: the other tracks stay."""
    chat = start(ad_creation.WORKFLOW)
    wrong = call("write_script", voice="x", text="y")
    await chat.send("Rye for 2 euros at Miel", wrong, call("answer", text="Which voice?"))
    voices = chat.offer_of(0)["write_script"]["voice"]["enum"]
    assert len(voices) == 6
    tracks = [{"voiceId": voices[0], "text": "Rye for 2 euros."}, {"voiceId": voices[1], "text": "At Miel."}]
    await chat.send(
        "Two voices, please",
        call("more_options"),
        tool_call("create_voice_draft", tracks=tracks),
        call("write_music", prompt="calm piano"),
        call("answer", text="Done."),
    )
    await chat.send(
        "Say bakery in the second",
        call("write_track", track="track-1", voice=voices[1], text="At the bakery Miel."),
        call("answer", text="Done."),
    )
    script = await chat.newest("voices")
    assert [one["text"] for one in script["voiceTracks"]] == ["Rye for 2 euros.", "At the bakery Miel."]
    assert (await chat.newest("music"))["musicPrompt"] == "calm piano"


async def test_a_small_model_edits_and_adds_scenes(start: Any) -> None:
    chat = start(scene_edit.WORKFLOW)
    scene = {"name": "Opening", "elements": [{"id": "title", "kind": "text", "text": "Hello"}]}
    state = await chat.send(
        "Make an opening",
        call("add_scene", prompt="An opening that says Hello"),
        Say(json.dumps(scene)),
        call("answer", text="Done."),
    )
    assert list(chat.offer_of(0)) == ["add_scene", "answer", "more_options"]
    assert [one["status"] for one in state["results"]] == ["completed"]
    await chat.send(
        "Blue background",
        call("edit_scene", scene="all scenes", prompt="Make the background blue"),
        Say(json.dumps({"background": "blue"})),
        call("answer", text="It is blue."),
    )
    assert (await chat.newest("scene-1"))["scene"]["background"]["color"] == "#0000ff"


async def test_a_small_model_is_offered_what_a_lesson_has_work_for(start: Any) -> None:
    chat = start(fact_narration.WORKFLOW)
    text = material("photosynthesis").text
    sheet = {
        "topic": "Photosynthesis",
        "learningObjective": "Say what plants need.",
        "facts": [
            {"concept": f"Fact {at}", "details": quote, "quote": quote, "confidence": 0.9}
            for at, quote in enumerate([one for one in text.split(". ") if len(one) > 60][:4])
        ],
        "language": "english",
        "leftOut": 0,
    }
    await chat.send("Hi, who are you?", call("answer", text="I make lessons."))
    assert list(chat.offer_of(0)) == ["find_facts", "answer", "more_options"]
    await chat.send(
        f"For my class:\n\n{text}", call("find_facts", material="source-1"), Say(json.dumps(sheet))
    )
    assert chat.offer_of(1)["find_facts"]["material"]["enum"] == ["source-1"]
    facts = (await chat.newest("facts"))["facts"]
    assert facts


EVERYTHING = {"company": "any", "channel": "any", "value_prop": "any", "sentiment": "any"}


def fact_option(offer: dict[str, dict[str, Any]], number: int) -> str:
    """The fact of this number, as the choice's schema names it."""
    [one, _] = offer["choose_facts"]["wanted"]["items"]["anyOf"]
    options = one["properties"]["fact"]["enum"]
    return str(options[number - 1])


async def test_a_choice_in_words_is_read_part_by_part_and_put_together_by_code(
    opened: Storage, start: Any
) -> None:
    """B52."""
    chat = start(fact_narration.WORKFLOW)
    texts = [
        "Ants live in nests.",
        "A queen lays the eggs.",
        "Workers look for food.",
        "Soldiers guard the nest.",
    ]
    facts = [
        {"id": f"fact-{at}", "concept": text, "details": text, "confidence": 0.9, "source": None}
        for at, text in enumerate(texts, 1)
    ]
    data = {"topic": "ants", "learningObjective": "Know ants", "facts": facts, "language": "english"}
    await chat.artefact.open(owner="local", thread="lean", facts={})
    await chat.artefact.create_version(NewVersion("facts", data, "llm", "run"))
    await chat.send("Thank you", call("answer", text="You are welcome."), choice="v1")
    offer, messages = chat.offer_of(), chat.double.requests[-1].messages
    assert messages[-1]["content"].startswith("<state>\n1. Ants live in nests.\n2. A queen")
    examples = [one["content"] for one in messages if one["role"] == "assistant"]
    assert len(examples) > 8
    assert not any("nests" in one for one in examples)
    wanted = [{"words": "the first three", "facts": [fact_option(offer, number) for number in (1, 2, 3)]}]
    left_out = [{"words": "not the queen", "fact": fact_option(offer, 2)}]
    choice = call("choose_facts", wanted=wanted, left_out=left_out)
    with pytest.raises(RequestRejected, match="no further reply"):
        # The choice is recorded before the narration is requested, which nobody answers here.
        await chat.send("the first three, but not the queen", choice)
    assert [one["id"] for one in (await chat.newest("confirmed"))["facts"]] == ["fact-1", "fact-3"]


async def test_a_small_model_searches_campaigns_by_one_value_of_each_kind(start: Any) -> None:
    chat = start(campaign_search.WORKFLOW)
    named = {**EVERYTHING, "sentiment": "Urgent", "month": "any", "words": "", "count_by": "channel"}
    state = await chat.send(
        "Which channel has the most urgent ads?",
        call("search", **named),
        call("answer", text="Most urgent ads are on the first channel of the list."),
    )
    assert list(chat.offer_of(0)) == ["search", "search_ideas", "answer", "more_options"]
    assert state["detected_filters"] == {"sentiment": ["Urgent"]}
    assert state["aggregation"]["groupBy"] == "channel"
    assert state["messages"][-1].text.startswith("Most urgent ads")


async def test_an_untrue_answer_of_a_small_model_is_replaced_by_the_search_result(start: Any) -> None:
    chat = start(campaign_search.WORKFLOW)
    wrong = call("answer", text="There are 4,711 of them, all by Globex.")
    state = await chat.send(
        "What is like a free airport lounge?", call("search_ideas", idea="lounge"), wrong, wrong
    )
    assert state["result"]["source"] == "meaning"
    assert state["messages"][-1].text.startswith("The nearest in meaning:")
    assert "4,711" not in state["messages"][-1].text


@pytest.mark.parametrize(
    ("spec", "profile"),
    [
        ("compatible/Qwen3-30B-A3B", "full"),
        ("compatible/gemma-3-270m-it", "lean"),
        ("ollama/qwen3:14b", "lean"),
        ("ollama/qwen3:32b", "full"),
        ("ollama/mistral-small", "full"),
        ("openai/small-8b", "full"),
    ],
)
async def test_the_size_in_the_name_of_a_local_model_decides(start: Any, spec: str, profile: str) -> None:
    chat = start(page_builder.WORKFLOW, spec)
    await chat.send("Who are you?", call("answer", text="Hello."))
    assert ("change" in chat.offer_of()) == (profile == "lean")


@pytest.mark.parametrize(("setting", "spec"), [("lean", "openai"), ("full", SMALL)])
async def test_a_setting_decides_on_the_profile(
    start: Any, monkeypatch: pytest.MonkeyPatch, setting: str, spec: str
) -> None:
    monkeypatch.setenv("OPENAI_PROFILE" if spec == "openai" else "COMPATIBLE_PROFILE", setting)
    chat = start(page_builder.WORKFLOW, spec)
    await chat.send("Who are you?", call("answer", text="Hello."))
    assert ("change" in chat.offer_of()) == (setting == "lean")


async def test_a_local_model_whose_first_two_turns_fail_is_offered_few_tools(start: Any) -> None:
    chat = start(page_builder.WORKFLOW, "ollama/mystery")
    for _ in range(2):
        await chat.send(
            "Red headline",
            tool_call("modify_element", elementId="heading-1"),
            Say("I cannot."),
            Say("I cannot."),
        )
        assert "change" not in chat.offer_of()
    await chat.send("Which headline is red?", call("answer", text="None."))
    assert "change" in chat.offer_of()
