"""Tool calls of models: collected from the pieces of a stream, bounded, and read in linear time.

LangChain reads the arguments in every piece of a stream, and again when it merges the pieces. Its parser for
incomplete JSON takes time with the square of a text that is none: seconds for 32,000 characters, on the event
loop. So the pieces are kept from it, and merged and read here. It also merges all pieces in one step at the
end, at 50 µs each, so that pieces of few characters are joined first.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCallChunk
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from pydantic_core import from_json

from callsheet.state.unicode import PairJoiner, utf8_safe

MAKER: Final = "model_provider"
"""Key of a message's `response_metadata` for the vendor that made it."""
MAX_CHARS: Final = 256_000
"""Characters of one call's arguments that are read. A longer text is cut, and so is no JSON object."""
MAX_DEPTH: Final = 100
"""Levels of lists and objects in the arguments of a call."""
_SMALLEST_SHARE: Final = 64
"""A piece has at least this part of the arguments before it, which makes a few hundred pieces at most."""
_MAX_BITS: Final = 63
"""Of an integer in a checkpoint, beside its sign."""
Reader = Callable[[str], dict[str, Any] | None]
"""Returns the object in the arguments of a call; None for a text that it cannot read."""


def call_pieces(calls: Iterable[Mapping[str, Any]]) -> list[ToolCallChunk]:
    """Return the pieces of calls in one event of a stream; an event may lack indexes and have objects."""
    pieces = []
    for position, call in enumerate(calls):
        function, index = call.get("function") or {}, call.get("index")
        name, args, call_id = (
            _text(value) for value in (function.get("name"), function.get("arguments"), call.get("id"))
        )
        pieces.append(
            tool_call_chunk(name=name, args=args, id=call_id, index=position if index is None else index)
        )
    return pieces


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


class CallCollector:
    """Numbers the calls of one stream from 0, and bounds their arguments."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._ids: list[str] = []
        self._sizes: list[int] = []
        self._joiners: list[PairJoiner] = []
        self._held: dict[int, str] = {}

    def collect(self, message: AIMessageChunk, *, ends: bool) -> None:
        """Number and read the pieces of calls in a chunk; `ends` is true for the last one of the stream."""
        pieces: list[ToolCallChunk] = []
        for piece in message.tool_call_chunks:
            number = self._collect(piece)
            pieces += self._release(other for other in self._held if other != number)
            if not self._hold(piece, number):
                pieces.append(piece)
        if ends:
            for number, joiner in enumerate(self._joiners):
                self._held[number] = self._held.get(number, "") + joiner.flush()
            pieces += self._release(self._held)
        message.tool_call_chunks = pieces
        set_calls(message, pieces, _read_piece)

    def _hold(self, piece: ToolCallChunk, number: int) -> bool:
        """Return True if a piece is too small to be passed on; else it gets what was held before it."""
        text = self._held.pop(number, "") + (piece["args"] or "")
        if not (piece["name"] or piece["id"]) and len(text) <= self._sizes[number] // _SMALLEST_SHARE:
            self._held[number] = text
            return True
        piece["args"] = text
        return False

    def _release(self, numbers: Iterable[int]) -> list[ToolCallChunk]:
        """Return what was held of these calls."""
        texts = [(number, self._held.pop(number, "")) for number in list(numbers)]
        return [tool_call_chunk(args=text, index=number) for number, text in texts if text]

    def _collect(self, piece: ToolCallChunk) -> int:
        """Number a piece of a call and return the number: a new id is a new call, whatever its index."""
        raw, call_id = piece["index"], piece["id"] or ""
        number = self._numbers.get(raw)
        known = "" if number is None else self._ids[number]
        if number is None or (call_id and known and call_id != known):
            number = self._numbers[raw] = len(self._ids)
            self._ids.append("")
            self._sizes.append(0)
            self._joiners.append(PairJoiner())
        elif call_id:
            # Some vendors repeat name and id in every piece, and merging would append them.
            piece["name"] = None
        piece["index"] = number
        self._ids[number] = self._ids[number] or call_id
        if piece["args"]:
            # One character more than is read, so that what is cut here is not read.
            piece["args"] = self._joiners[number].push(piece["args"])[: MAX_CHARS + 1 - self._sizes[number]]
            self._sizes[number] += len(piece["args"])
        return number


class ChatChunk(ChatGenerationChunk):
    """A piece of a streamed answer whose calls are read once, when all pieces are merged."""

    def __add__(self, other: ChatGenerationChunk | list[ChatGenerationChunk]) -> ChatGenerationChunk:
        """Return the pieces as one."""
        chunks = _join_texts([self, *(other if isinstance(other, list) else [other])])
        messages = [chunk.message for chunk in chunks if isinstance(chunk.message, AIMessageChunk)]
        first, *rest = [
            ChatGenerationChunk(message=_without_calls(chunk.message), generation_info=chunk.generation_info)
            if isinstance(chunk.message, AIMessageChunk)
            else chunk
            for chunk in chunks
        ]
        merged = first + rest
        if isinstance(merged.message, AIMessageChunk):
            merged.message.tool_call_chunks = _merge_pieces(messages)
            set_calls(merged.message, merged.message.tool_call_chunks, decode_arguments)
        return ChatChunk(message=merged.message, generation_info=merged.generation_info)


def _join_texts(chunks: Sequence[ChatGenerationChunk]) -> list[ChatGenerationChunk]:
    """Return the pieces of a stream with those that hold nothing but text joined to the text before them."""
    joined: list[ChatGenerationChunk] = []
    texts: list[str] = []
    for chunk in chunks:
        text = str(chunk.message.content) if is_text(chunk) else None
        if texts and text is not None and _has_same_frame(joined[-1].message, chunk.message):
            texts.append(text)
            continue
        _set_text(joined, texts)
        texts = [] if text is None else [text]
        joined.append(chunk)
    _set_text(joined, texts)
    return joined


def _set_text(joined: list[ChatGenerationChunk], texts: Sequence[str]) -> None:
    if len(texts) > 1:
        message = joined[-1].message.model_copy(update={"content": "".join(texts)})
        joined[-1] = joined[-1].model_copy(update={"message": message})


def is_text(chunk: ChatGenerationChunk) -> bool:
    """Return True for a piece of a stream with nothing but text, which may be empty."""
    message = chunk.message
    return (
        isinstance(message, AIMessageChunk)
        and isinstance(message.content, str)
        and not (chunk.generation_info or message.additional_kwargs or message.tool_call_chunks)
        and not (message.usage_metadata or message.chunk_position)
        and not message.response_metadata.keys() - {MAKER}
    )


def _has_same_frame(first: BaseMessage, second: BaseMessage) -> bool:
    return first.id == second.id and first.response_metadata == second.response_metadata


def merge_messages(first: AIMessageChunk, second: AIMessageChunk) -> AIMessageChunk:
    """Return two pieces of a streamed message as one, whose calls may be incomplete."""
    merged = _without_calls(first) + _without_calls(second)
    merged.tool_call_chunks = _merge_pieces([first, second])
    set_calls(merged, merged.tool_call_chunks, _read_piece)
    return merged


def _without_calls(message: AIMessageChunk) -> AIMessageChunk:
    """Return a copy of a piece without its calls."""
    return message.model_copy(update={"tool_call_chunks": [], "tool_calls": [], "invalid_tool_calls": []})


def _merge_pieces(messages: Iterable[AIMessageChunk]) -> list[ToolCallChunk]:
    """Return the calls in the pieces of a stream: pieces with one index and no other id are one call."""
    calls: list[ToolCallChunk] = []
    texts: list[list[str]] = []
    newest: dict[int, int] = {}
    for piece in (piece for message in messages for piece in message.tool_call_chunks):
        index = piece["index"]
        at = newest.get(index) if index is not None else None
        if at is None or (piece["id"] and calls[at]["id"] not in {None, "", piece["id"]}):
            at = len(calls)
            calls.append(tool_call_chunk(index=index))
            texts.append([])
            if index is not None:
                newest[index] = at
        call = calls[at]
        call["id"] = call["id"] or piece["id"]
        call["name"] = (call["name"] or "") + piece["name"] if piece["name"] else call["name"]
        texts[at].append(piece["args"] or "")
    for call, parts in zip(calls, texts, strict=True):
        call["args"] = "".join(parts)
    return calls


def set_calls(message: AIMessage, calls: Iterable[Mapping[str, Any]], read: Reader) -> None:
    """Set the calls of a message, whose arguments are text; what `read` cannot read is an invalid call."""
    message.tool_calls, message.invalid_tool_calls = [], []
    for call in calls:
        name, call_id, text = call["name"], call["id"], call["args"]
        arguments = read(text or "{}")
        if arguments is None:
            invalid = invalid_tool_call(name=name, args=text, id=call_id, error="not a JSON object")
            message.invalid_tool_calls.append(invalid)
        else:
            message.tool_calls.append(tool_call(name=name or "", args=arguments, id=call_id))


def decode_arguments(text: str) -> dict[str, Any] | None:
    """Return the JSON object in `text`, which some models encode twice; None if there is none to store."""
    if len(text) > MAX_CHARS:
        return None
    decoded: Any = text
    try:
        while isinstance(decoded, str):
            decoded = json.loads(decoded, strict=False)
        return dict(_storable(decoded)) if isinstance(decoded, dict) else None
    except (ValueError, RecursionError):
        return None


def _storable(value: Any, depth: int = 1) -> Any:
    """Return a JSON value with no half of a surrogate pair, which an escape may hide.

    Raises `ValueError` for one that a checkpoint cannot hold.
    """
    if isinstance(value, str):
        return utf8_safe(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise ValueError("an integer is too large")
    if not isinstance(value, dict | list):
        return value
    if depth > MAX_DEPTH:
        raise ValueError("values are nested too deeply")
    if isinstance(value, list):
        return [_storable(item, depth + 1) for item in value]
    return {utf8_safe(name): _storable(item, depth + 1) for name, item in value.items()}


def _read_piece(text: str) -> dict[str, Any] | None:
    """Return the JSON object that `text` is or begins; None if it does not begin one."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return dict(_storable(from_json(text, allow_partial="trailing-strings")))
    except ValueError:
        return decode_arguments(text)
