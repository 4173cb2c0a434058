"""The offline chat model: a deterministic LangChain model; the bound tools choose the workflow it plays."""

import hashlib
import importlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from callsheet.providers.offline.conversation import OfflineReply, read

NAME = "offline"
_ABOUT = (
    "I am the offline demo model: a grammar of English requests, no language model and no network. I make "
    "audio ads, lessons, videos and landing pages and search campaigns when their tools are bound; with "
    "{tools} I have nothing to do."
)
_WORKFLOWS: Final[Mapping[str, frozenset[str]]] = {
    "lessons": frozenset({"saveStudentInfoTool", "extractFactsTool", "FactSheet", "NarrationScript"}),
    "ads": frozenset({"search_voices", "create_voice_draft", "create_music_draft", "create_sfx_draft"}),
    "campaigns": frozenset({"search"}),
    "video": frozenset({"submit_plan", "ScenePatch", "Scene"}),
    "pages": frozenset({"modify_element", "create_element", "list_elements"}),
}
"""Module of this package to the tools that select it."""
_WORDS = re.compile(r"\S+\s*|\s+")


class OfflineModel(BaseChatModel):
    """A chat model that answers by rules; equal messages and tools give equal answers."""

    @property
    def _llm_type(self) -> str:
        return NAME

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | dict[str, Any] | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return this model with `tools`; `tool_choice` is auto, none, required, a name or OpenAI's dict."""
        bound = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=bound, tool_choice=tool_choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del run_manager
        message = _message(messages, stop or (), kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(_message(messages, stop or (), kwargs)):
            generation = ChatGenerationChunk(message=chunk)
            if run_manager:
                run_manager.on_llm_new_token(str(chunk.text), chunk=generation)
            yield generation

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for generation in self._stream(messages, stop, **kwargs):
            if run_manager:
                await run_manager.on_llm_new_token(str(generation.text), chunk=generation)
            yield generation


def _message(messages: Sequence[BaseMessage], stop: Sequence[str], kwargs: Mapping[str, Any]) -> AIMessage:
    tools: list[dict[str, Any]] = list(kwargs.get("tools") or ())
    answer = _answer(messages, tools, kwargs.get("tool_choice"))
    calls = [
        ToolCall(name=request.name, args=request.args, id=_call_id(messages, index), type="tool_call")
        for index, request in enumerate(answer.calls)
    ]
    message = AIMessage(
        content=_truncate(answer.text, stop),
        tool_calls=calls,
        response_metadata={"model_name": NAME},
        # In the form in which vendors say it.
        additional_kwargs={"refusal": answer.text} if answer.refused else {},
    )
    message.usage_metadata = _usage(messages, message, tools)
    return message


def _answer(messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]], choice: Any) -> OfflineReply:
    names = frozenset(str(tool["function"]["name"]) for tool in tools)
    workflow = next((name for name, known in _WORKFLOWS.items() if names & known), None)
    conversation = read(messages, _callable_tools(choice, names))
    if workflow is None or conversation is None:
        return OfflineReply(_ABOUT.format(tools=", ".join(sorted(names)) or "no tools"))
    answer: OfflineReply = importlib.import_module(f"callsheet.providers.offline.{workflow}").answer(
        conversation
    )
    return answer


def _callable_tools(choice: Any, names: frozenset[str]) -> frozenset[str]:
    """Return the tools that may be called under a `tool_choice`."""
    if isinstance(choice, Mapping):
        choice = choice.get("function", {}).get("name")
    if choice == "none":
        return frozenset()
    return frozenset({choice}) & names if choice in names else names


def _truncate(text: str, stop: Sequence[str]) -> str:
    """Return the text before the first stop word."""
    ends = [position for word in stop if word and (position := text.find(word)) >= 0]
    return text[: min(ends)] if ends else text


def _call_id(messages: Sequence[BaseMessage], index: int) -> str:
    """Return an id derived from the history, so that it is unique even after a compaction."""
    history = [
        (each.type, str(each.text), getattr(each, "tool_call_id", ""), getattr(each, "tool_calls", ()))
        for each in messages
    ]
    digest = hashlib.blake2b(repr(history).encode(), digest_size=9)
    return f"call_{digest.hexdigest()}_{index}"


def _usage(
    messages: Sequence[BaseMessage], answer: AIMessage, tools: Sequence[dict[str, Any]]
) -> UsageMetadata:
    sent = count_tokens_approximately(messages, tools=list(tools) or None)
    received = count_tokens_approximately([answer])
    return UsageMetadata(input_tokens=sent, output_tokens=received, total_tokens=sent + received)


def _chunks(message: AIMessage) -> Iterator[AIMessageChunk]:
    """Yield the message as vendors stream it: words, then each call's name and arguments, then the usage."""
    for word in _WORDS.findall(str(message.text)):
        yield AIMessageChunk(content=word)
    for index, call in enumerate(message.tool_calls):
        head = {"name": call["name"], "args": "", "id": call["id"], "index": index, "type": "tool_call_chunk"}
        yield AIMessageChunk(content="", tool_call_chunks=[head])
        args = json.dumps(call["args"], ensure_ascii=False)
        body = {"name": None, "args": args, "id": None, "index": index, "type": "tool_call_chunk"}
        yield AIMessageChunk(content="", tool_call_chunks=[body])
    yield AIMessageChunk(
        content="",
        additional_kwargs=dict(message.additional_kwargs),
        usage_metadata=message.usage_metadata,
        response_metadata=dict(message.response_metadata),
        chunk_position="last",
    )
