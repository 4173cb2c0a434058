"""The offline model as a LangChain chat model: deterministic, with a vendor's protocol (X11, A39)."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.tools import tool

from callsheet.providers import load
from callsheet.providers.offline.model import OfflineModel
from callsheet.state.ads import brief
from callsheet.tools.ads.drafts import TOOLS as AUDIO
from callsheet.tools.registry import definition

TOOLS = [definition(one) for one in AUDIO]
SYSTEM = SystemMessage('You direct audio ads.\nAd id: "ad-1"\nSpot: 30 s')
BRIEF = [SYSTEM, HumanMessage(brief.message(brief.parse("Harbor Books sells books in Leith. 20% off.")))]
SEARCH_RESULT = {"voices": [{"id": "a/b", "name": "B", "language": "english"}], "count": 1}
DRAFT_RESULT = {"versionId": "v1", "status": "draft", "timeline": {"fits": True}}


def answer(messages: list[Any] | None = None, tools: list[Any] | None = None, **options: Any) -> AIMessage:
    model = OfflineModel().bind_tools(TOOLS if tools is None else tools, **options)
    return model.invoke(BRIEF if messages is None else messages)


def turn(tools: list[Any]) -> list[Any]:
    """Return all messages of a turn that starts with the brief, with a result for each call."""
    messages: list[Any] = list(BRIEF)
    while messages[-1].type != "ai" or messages[-1].tool_calls:
        messages.append(answer(messages, tools))
        for call in messages[-1].tool_calls:
            result = SEARCH_RESULT if call["name"] == "search_voices" else DRAFT_RESULT
            messages.append(ToolMessage(json.dumps(result), tool_call_id=call["id"]))
    return messages


def calls_in(messages: list[Any]) -> list[Any]:
    return [call for message in messages if message.type == "ai" for call in message.tool_calls]


def test_the_same_messages_and_tools_give_the_same_answer():
    """X11."""
    first, second = answer(), answer()
    assert first.tool_calls
    assert (first.content, first.tool_calls, first.usage_metadata) == (
        second.content,
        second.tool_calls,
        second.usage_metadata,
    )


def test_the_provider_is_loaded_by_its_name():
    assert isinstance(load("offline"), OfflineModel)


def test_the_reply_has_the_models_name_and_its_token_usage():
    """A66."""
    reply = answer()
    assert reply.response_metadata["model_name"] == "offline"
    assert reply.usage_metadata is not None
    usage = reply.usage_metadata
    assert usage["input_tokens"] == count_tokens_approximately(BRIEF, tools=list(TOOLS))
    assert usage["output_tokens"] > 20
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


async def test_invoke_stream_and_async_calls_give_the_same_answer():
    """A80."""
    model, reply = OfflineModel().bind_tools(TOOLS), answer()
    streams = [list(model.stream(BRIEF)), [chunk async for chunk in model.astream(BRIEF)]]
    for chunks in streams:
        joined: Any = chunks[0]
        for chunk in chunks[1:]:
            joined += chunk
        assert isinstance(joined, AIMessageChunk)
        assert (joined.text, joined.tool_calls, joined.usage_metadata, joined.response_metadata) == (
            reply.text,
            reply.tool_calls,
            reply.usage_metadata,
            reply.response_metadata,
        )
    later = await model.ainvoke(BRIEF)
    assert (later.text, later.tool_calls) == (reply.text, reply.tool_calls)


def test_a_stream_has_text_then_call_names_then_arguments_then_usage():
    chunks: list[Any] = list(OfflineModel().bind_tools(TOOLS).stream(BRIEF))
    words = [chunk for chunk in chunks if chunk.text]
    assert len(words) > 10
    assert all(len(chunk.text.split()) == 1 for chunk in words)
    pieces = [piece for chunk in chunks for piece in chunk.tool_call_chunks]
    assert [(piece["name"], bool(piece["args"]), bool(piece["id"])) for piece in pieces] == [
        ("search_voices", False, True),
        (None, True, False),
    ]
    assert json.loads(pieces[1]["args"])["language"] == "english"
    assert [chunk.chunk_position for chunk in chunks if chunk.usage_metadata] == ["last"]


def test_call_ids_never_repeat_within_a_conversation():
    """A28."""
    ids = [call["id"] for call in calls_in(turn(TOOLS))]
    assert len(ids) == len(set(ids)) == 4


@pytest.mark.parametrize("text", ["make the music calmer", BRIEF[1].text])
def test_no_tool_is_called_with_tool_choice_none(text: str):
    """A-R11: at the bound of rounds the model must answer in text, and reports that nothing was done."""
    forced = answer([*turn(TOOLS), HumanMessage(text)], tool_choice="none")
    assert forced.tool_calls == []
    assert "nothing" in forced.text


@pytest.mark.parametrize(
    "choice", ["search_voices", {"type": "function", "function": {"name": "search_voices"}}]
)
def test_only_the_named_tool_is_called(choice: Any):
    assert {call["name"] for call in answer(tool_choice=choice).tool_calls} == {"search_voices"}


@pytest.mark.parametrize("choice", ["auto", "required", "any", True, None])
def test_any_tool_may_be_called_when_no_tool_is_named(choice: Any):
    assert answer(tool_choice=choice).tool_calls


def test_functions_can_be_bound_as_tools():
    @tool
    def search_voices(language: str) -> str:
        """Find voices."""
        return language

    assert [call["name"] for call in answer(tools=[search_voices]).tool_calls] == ["search_voices"]


@pytest.mark.parametrize("tools", [[], [{"type": "function", "function": {"name": "launch_rocket"}}]])
def test_with_unknown_tools_the_reply_lists_the_supported_workflows(tools: list[Any]):
    reply = answer(tools=tools)
    assert reply.tool_calls == []
    assert "audio ads" in reply.text.replace("\n", " ")


def test_a_conversation_without_a_user_message_is_answered():
    assert "offline demo model" in answer([SYSTEM]).text


def test_only_bound_tools_are_called():
    tools = [one for one in TOOLS if one["function"]["name"] != "create_music_draft"]
    names = {call["name"] for call in calls_in(turn(tools))}
    assert names == {"search_voices", "create_voice_draft", "create_sfx_draft"}


def test_a_stop_sequence_ends_the_text():
    text = OfflineModel().bind_tools(TOOLS).invoke(BRIEF, stop=["Music"]).text
    assert text
    assert "Music" not in text


@pytest.mark.parametrize("channel", [None, "email", ["email"]])
def test_a_follow_up_reads_the_search_of_another_model(channel: Any):
    """Real models write nulls, and a text for a list."""
    args = {"by": "filter", "channel": channel, "exclude": None, "sentiment": None}
    before = AIMessage("", tool_calls=[{"name": "search", "args": args, "id": "c1", "type": "tool_call"}])
    talk = [HumanMessage("show me email campaigns"), before, ToolMessage('{"count": 3}', tool_call_id="c1")]
    search = {"type": "function", "function": {"name": "search"}}
    [call] = answer([*talk, AIMessage("3"), HumanMessage("only the urgent ones")], [search]).tool_calls
    assert call["args"]["sentiment"] == ["Urgent"]
    assert call["args"].get("channel") == channel
