"""Repair of answers: reasoning and repeated state blocks leave the text."""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from callsheet.providers.tool_calls import MAKER, CallCollector, ChatChunk, is_text
from callsheet.state.state_block import EchoCutter, partial_end
from callsheet.state.unicode import PairJoiner

REASONING: Final = "reasoning_content"
"""Key of a message's `additional_kwargs`, and field of Kimi's, Qwen's, vLLM's and llama.cpp's API."""
_FIELDS: Final = (REASONING, "reasoning")
"""Names of the field for reasoning; Ollama and newer vLLM use the second."""
_CLOSE: Final = "</think>"
_BLOCKS: Final = {
    "<think>": _CLOSE,
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
}
"""Marks of reasoning with those that end it: of Qwen and DeepSeek, Magistral, Kimi, and gpt-oss."""


def extra_fields(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of an API's message or delta that `ChatOpenAI` drops: reasoning and refusal."""
    reasoning = next((message[name] for name in _FIELDS if isinstance(message.get(name), str)), "")
    refusal = message.get("refusal") or ""
    return {name: text for name, text in ((REASONING, reasoning), ("refusal", refusal)) if text}


def own_reasoning(message: BaseMessage, maker: str) -> str:
    """Return the reasoning kept with a message if `maker` made it; otherwise an empty text."""
    if message.response_metadata.get(MAKER) != maker:
        return ""
    return str(message.additional_kwargs.get(REASONING, ""))


def split_message(message: AIMessage) -> None:
    """Move the reasoning at the beginning of a complete message's text to `reasoning_content`.

    A state block that the model repeats is cut.
    """
    if not isinstance(message.content, str):
        return
    splitter = ThinkSplitter()
    shown, thought = splitter.push(_with_opening(message.content))
    shown_rest, thought_rest = splitter.flush()
    cutter = EchoCutter()
    message.content = cutter.push(shown + shown_rest) + cutter.flush()
    if thought + thought_rest:
        kept = message.additional_kwargs.get(REASONING, "")
        message.additional_kwargs[REASONING] = kept + thought + thought_rest


def without_unopened_thought(message: AIMessage) -> AIMessage:
    """Return a streamed message without reasoning that the model's template opened, under a new id.

    Its words may have been streamed as an answer: only their end shows what they were.
    """
    text = message.content
    if not isinstance(text, str) or _with_opening(text) == text:
        return message
    kept = {**message.additional_kwargs}
    split = message.model_copy(update={"id": str(uuid.uuid4()), "additional_kwargs": kept})
    split_message(split)
    return split


def _with_opening(text: str) -> str:
    """Return a text with the mark of its reasoning, where `</think>` shows that the template opened it."""
    return f"<think>{text}" if _CLOSE in text and "<think>" not in text else text


class ThinkSplitter:
    """Splits a text that arrives in pieces at `<think>…</think>` and the like, which may be cut anywhere.

    Only a block at the beginning is reasoning; a later `<think>` is something that the model writes about.
    """

    def __init__(self) -> None:
        self._held = ""
        self._state = "start"
        self._close = ""

    def push(self, piece: str) -> tuple[str, str]:
        """Return the answer and the reasoning that are certain after `piece`."""
        shown = thought = ""
        self._held += piece
        if self._state == "start":
            self._begin(self._held.lstrip())
        if self._state == "thought":
            before, closed, after = self._held.partition(self._close)
            certain = len(before) if closed else len(before) - partial_end(before, self._close)
            thought, self._held = before[:certain], after if closed else before[certain:]
            self._state = "gap" if closed else "thought"
        if self._state == "gap":
            self._held = self._held.lstrip()
            self._state = "answer" if self._held else "gap"
        if self._state == "answer":
            shown, self._held = self._held, ""
        return shown, thought

    def flush(self) -> tuple[str, str]:
        """Return what was held back, at the end of the text."""
        held, self._held = self._held, ""
        return ("", held) if self._state == "thought" else (held, "")

    def _begin(self, stripped: str) -> None:
        """Decide whether the text begins with reasoning, as soon as that is certain."""
        for mark, close in _BLOCKS.items():
            if stripped.startswith(mark):
                self._held, self._state, self._close = stripped[len(mark) :], "thought", close
                return
        if not any(mark.startswith(stripped) for mark in _BLOCKS):
            self._state = "answer"


class StreamRepair:
    """Repairs the chunks of one stream: reasoning and repeated state blocks leave the text.

    Tool calls are numbered from 0.
    """

    def __init__(self) -> None:
        self.begun = False
        """A chunk has arrived."""
        self.finished = False
        """The vendor has said why the answer ended."""
        self.chars = 0
        """Characters of text and reasoning so far."""
        self._splitter = ThinkSplitter()
        self._cutter = EchoCutter()
        self._calls = CallCollector()
        self._joiners: dict[str, PairJoiner] = {}

    def repair(self, chunk: ChatGenerationChunk) -> ChatGenerationChunk:
        """Return `chunk` with its text split and its calls numbered; ids stay as they are."""
        self.begun = True
        message = chunk.message
        if not isinstance(message, AIMessageChunk):
            return chunk
        ends = bool((chunk.generation_info or message.response_metadata).get("finish_reason"))
        self.finished = self.finished or ends
        reasoning = message.additional_kwargs.pop(REASONING, "")
        self.chars += len(reasoning) + len(message.content)
        if reasoning := self._join(REASONING, reasoning, ends=ends):
            message.additional_kwargs[REASONING] = reasoning
        if isinstance(message.content, str):
            shown, thought = self._splitter.push(self._join("text", message.content, ends=ends))
            if ends:
                rest, thought_rest = self._splitter.flush()
                shown, thought = shown + rest, thought + thought_rest
            shown = self._cutter.push(shown) + (self._cutter.flush() if ends else "")
            message.content = shown
            if thought:
                message.additional_kwargs[REASONING] = message.additional_kwargs.get(REASONING, "") + thought
        self._calls.collect(message, ends=ends)
        return ChatChunk(message=message, generation_info=chunk.generation_info)

    @staticmethod
    def is_empty(chunk: ChatGenerationChunk) -> bool:
        """Return True if nothing is left of a piece that was held or cut."""
        return is_text(chunk) and not chunk.message.content

    def _join(self, name: str, piece: str, *, ends: bool) -> str:
        """Return a piece of a text of the stream with no half of a surrogate pair."""
        joiner = self._joiners.setdefault(name, PairJoiner())
        return joiner.push(piece) + (joiner.flush() if ends else "")
