"""Results of lesson tools as a model is sent them: without what it has elsewhere or does not need."""

import json
from collections.abc import Mapping
from typing import Any, Final

from langchain_core.messages import AnyMessage, ToolMessage

_EXTRACT: Final = "extractFactsTool"
_SHOWN_ELSEWHERE: Final = frozenset({_EXTRACT, "generateNarrationTool"})


def without_repetition(message: AnyMessage) -> AnyMessage:
    """Return a message as a model is sent it.

    A narration is in the state block; the passages that prove facts are for people and for checks.
    """
    if not isinstance(message, ToolMessage) or message.name not in _SHOWN_ELSEWHERE:
        return message
    try:
        output = json.loads(message.text)
    except ValueError:
        # A client may have replaced it.
        return message
    if not isinstance(output, dict) or not output.keys() & {"narration", "facts"}:
        return message
    return message.model_copy(update={"content": json.dumps(_short(output), ensure_ascii=False)})


def _short(output: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in output.items() if name != "narration"}
    if facts := output.get("facts"):
        kept["facts"] = [{name: one.get(name) for name in ("id", "concept", "details")} for one in facts]
    return kept
