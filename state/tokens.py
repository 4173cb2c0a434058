"""Estimates of tokens before a model has counted them, by script.

Latin text has about four characters a token, other alphabets two, Thai and Chinese one. A vendor's own count
is used wherever there is one.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage

from callsheet.state.conversation import calls_of

MESSAGE_TOKENS: Final = 4
"""Tokens of a message's role and separators."""
_ASCII: Final = re.compile(r"[\x00-\x7f]+")
_ALPHABETS: Final = re.compile(r"[\u0080-\u0dff]+")
_ASCII_CHARS: Final = 4
_ALPHABET_CHARS: Final = 2


def estimate_text(text: str) -> int:
    """Return the expected tokens of a text."""
    ascii_chars = sum(len(part) for part in _ASCII.findall(text))
    alphabet_chars = sum(len(part) for part in _ALPHABETS.findall(text))
    others = len(text) - ascii_chars - alphabet_chars
    return -(-ascii_chars // _ASCII_CHARS) + -(-alphabet_chars // _ALPHABET_CHARS) + others


def fitting_length(text: str, tokens: int) -> int:
    """Return how many characters of a text, from its beginning, have at most `tokens` tokens."""
    most = min(len(text), tokens * _ASCII_CHARS)
    return bisect_right(range(1, most + 1), tokens, key=lambda length: estimate_text(text[:length]))


def shorten(text: str, tokens: int) -> str:
    """Return the text in about `tokens` tokens: its beginning and its end, with a note between them."""
    start, end = both_ends(text, tokens)
    left_out = len(text) - len(start) - len(end)
    return f"{start}\n[… {left_out} characters left out …]\n{end}" if left_out else text


def both_ends(text: str, tokens: int) -> tuple[str, str]:
    """Return the beginning, two thirds of `tokens`, and the end of a text; all and "" if it fits."""
    if estimate_text(text) <= tokens:
        return text, ""
    start = fitting_length(text, tokens * 2 // 3)
    end = len(text) - fitting_length(text[::-1], tokens - tokens * 2 // 3)
    return text[:start], text[end:]


def common_limit(sizes: Sequence[int], room: int, least: int) -> int:
    """Return the largest limit with which the sizes add up to at most `room`; never below `least`."""
    limits = range(least, max(sizes, default=least) + 1)
    fitting = bisect_right(limits, room, key=lambda limit: sum(min(size, limit) for size in sizes))
    return limits[max(0, fitting - 1)] if limits else least


def estimate_messages(messages: Iterable[BaseMessage]) -> int:
    """Return the expected tokens of messages with their tool calls."""
    return sum(MESSAGE_TOKENS + estimate_text(_content(message)) for message in messages)


def estimate_tools(tools: Iterable[dict[str, Any]]) -> int:
    """Return the expected tokens of tool definitions."""
    return sum(estimate_text(json.dumps(tool, ensure_ascii=False)) for tool in tools)


def _content(message: BaseMessage) -> str:
    calls = [json.dumps(call["args"], ensure_ascii=False) + call["name"] for call in calls_of(message)]
    return "".join([message.text, *calls])
