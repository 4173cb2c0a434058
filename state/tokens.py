"""Estimates of tokens before a model has counted them, by script.

Latin text has about four characters a token, other alphabets two, Thai and Chinese one. A vendor's own count
is used wherever there is one.
"""

import json
import re
from collections.abc import Iterable
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


def estimate_messages(messages: Iterable[BaseMessage]) -> int:
    """Return the expected tokens of messages with their tool calls."""
    return sum(MESSAGE_TOKENS + estimate_text(_content(message)) for message in messages)


def estimate_tools(tools: Iterable[dict[str, Any]]) -> int:
    """Return the expected tokens of tool definitions."""
    return sum(estimate_text(json.dumps(tool, ensure_ascii=False)) for tool in tools)


def _content(message: BaseMessage) -> str:
    calls = [json.dumps(call["args"], ensure_ascii=False) + call["name"] for call in calls_of(message)]
    return "".join([message.text, *calls])
