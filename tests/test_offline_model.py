"""The offline model behind LangChain's port: the same protocol as a vendor's, deterministic (X11, A39)."""

import json
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.tools import tool

from providers import load
from providers.offline.model import OfflineModel
from tests.first_turn import NAMES, TOOLS, draft, system, template

BRIEF = [
    system(),
    HumanMessage(template("Harbor Books, a bookstore in Leith", context="20% off until Friday")),
]


def answer(messages: list[Any] | None = None, tools: list[Any] | None = None, **options: Any) -> AIMessage:
    model = OfflineModel().bind_tools(TOOLS if tools is None else tools, **options)
    return model.invoke(BRIEF if messages is None else messages)


def streamed() -> list[AIMessageChunk]:
    return cast("list[AIMessageChunk]", list(OfflineModel().bind_tools(TOOLS).stream(BRIEF)))


def test_the_same_messages_and_tools_give_the_same_answer():
    """X11"""
    first, second = answer(), answer()
    assert (first.content, first.tool_calls, first.usage_metadata) == (
        second.content,
        second.tool_calls,
        second.usage_metadata,
    )


def test_the_provider_is_loaded_by_its_name():
    assert isinstance(load("offline"), OfflineModel)


def test_usage_and_name_are_reported_with_counted_tokens():
    """A66"""
    told = answer()
    assert told.response_metadata["model_name"] == "offline"
    assert told.usage_metadata is not None
    assert told.usage_metadata["input_tokens"] == count_tokens_approximately(BRIEF, tools=list(TOOLS))
    assert told.usage_metadata["output_tokens"] > 20
    assert told.usage_metadata["total_tokens"] == (
        told.usage_metadata["input_tokens"] + told.usage_metadata["output_tokens"]
    )


def test_the_stream_says_what_the_whole_answer_says():
    """A80"""
    whole = answer()
    chunks = streamed()
    joined: Any = chunks[0]
    for chunk in chunks[1:]:
        joined += chunk
    assert isinstance(joined, AIMessageChunk)
    assert joined.text == whole.text
    assert joined.tool_calls == whole.tool_calls
    assert joined.usage_metadata == whole.usage_metadata
    assert joined.response_metadata == whole.response_metadata


async def test_the_asynchronous_stream_says_the_same():
    whole = answer()
    joined: Any = None
    async for chunk in OfflineModel().bind_tools(TOOLS).astream(BRIEF):
        joined = chunk if joined is None else joined + chunk
    assert (joined.text, joined.tool_calls) == (whole.text, whole.tool_calls)


async def test_an_asynchronous_answer_is_the_same_answer():
    told = await OfflineModel().bind_tools(TOOLS).ainvoke(BRIEF)
    assert (told.text, told.tool_calls) == (answer().text, answer().tool_calls)


def test_a_streamed_call_comes_as_name_and_id_first_and_arguments_after():
    chunks = streamed()
    calls = [piece for chunk in chunks for piece in chunk.tool_call_chunks]
    assert [(call["name"], bool(call["args"]), bool(call["id"])) for call in calls] == [
        ("search_voices", False, True),
        (None, True, False),
    ]
    assert json.loads(calls[1]["args"] or "")["language"] == "english"


def test_text_is_streamed_word_by_word_and_only_the_last_chunk_carries_usage():
    chunks = streamed()
    words = [chunk for chunk in chunks if chunk.text]
    assert len(words) > 30
    assert all(len(chunk.text.split()) == 1 for chunk in words)
    assert [chunk.chunk_position for chunk in chunks if chunk.usage_metadata] == ["last"]
    assert chunks[-1].usage_metadata or chunks[-2].usage_metadata


def test_call_ids_never_repeat_within_a_conversation():
    """A28"""
    turn = draft("Harbor Books", context="man and woman, two voices")
    ids = [call["id"] for told in turn.answers for call in told.tool_calls]
    assert len(ids) == len(set(ids)) >= 5


def test_no_tool_is_called_when_none_may_be():
    told = answer(tool_choice="none")
    assert told.tool_calls == []
    assert "Harbor Books" in told.text


def test_only_the_named_tool_is_called():
    told = answer(tool_choice="search_voices")
    assert {call["name"] for call in told.tool_calls} == {"search_voices"}
    told = answer(tool_choice={"type": "function", "function": {"name": "create_music_draft"}})
    assert {call["name"] for call in told.tool_calls} <= {"create_music_draft"}


@pytest.mark.parametrize("choice", ["auto", "required", "any", True, None])
def test_any_tool_may_be_called_otherwise(choice: Any):
    assert answer(tool_choice=choice).tool_calls


def test_tools_may_be_functions():
    @tool
    def search_voices(language: str) -> str:
        """Find voices."""
        return language

    told = answer(tools=[search_voices])
    assert [call["name"] for call in told.tool_calls] == ["search_voices"]


@pytest.mark.parametrize("tools", [[], [{"type": "function", "function": {"name": "launch_rocket"}}]])
def test_with_tools_it_does_not_know_it_says_what_it_can_do(tools: list[Any]):
    told = answer(tools=tools)
    assert told.tool_calls == []
    assert "offline model" in told.text
    assert "audio ads" in told.text


def test_an_empty_conversation_is_answered():
    assert "offline model" in OfflineModel().bind_tools(TOOLS).invoke([system()]).text


def test_only_bound_tools_are_called():
    tools = [one for one in TOOLS if one["function"]["name"] != "create_music_draft"]
    messages = list(BRIEF)
    model = OfflineModel().bind_tools(tools)
    called = set()
    for _ in range(6):
        told = model.invoke(messages)
        messages.append(told)
        called |= {call["name"] for call in told.tool_calls}
        for call in told.tool_calls:
            voices = {"voices": [{"id": "a/b", "name": "B", "language": "english"}], "count": 1}
            result = voices if call["name"] == "search_voices" else {"versionId": "v1", "status": "draft"}
            messages.append(ToolMessage(json.dumps(result), tool_call_id=call["id"]))
    assert called == set(NAMES) - {"create_music_draft", "get_current_state"}


def test_a_stop_word_ends_the_text():
    told = OfflineModel().bind_tools(TOOLS).invoke(BRIEF, stop=["Tone"])
    assert told.text
    assert "Tone" not in told.text


def test_a_refinement_that_may_call_nothing_more_says_that_it_is_unfinished():
    """A-R11: after the bound a text is forced, and it is honest."""
    messages = [*draft("Harbor Books, a bookstore").messages, HumanMessage("Make the music faster")]
    told = OfflineModel().bind_tools(TOOLS, tool_choice="none").invoke(messages)
    assert told.tool_calls == []
    assert "could not finish" in told.text
