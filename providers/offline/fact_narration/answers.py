"""What the offline model answers when it is asked for facts of a material, or for a narration of facts."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage, HumanMessage

from providers.offline.answer import Answer, Calls, Request
from providers.offline.fact_narration.script import script
from providers.offline.fact_narration.sheet import sheet
from state.errors import Invalid

_FORMS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "FactSheet": sheet,
    "NarrationScript": script,
}


def answer(messages: Sequence[BaseMessage], allowed: frozenset[str]) -> Answer | None:
    """Return the filled-in form that is asked for, or None where none is.

    The last message of the user holds the request as JSON, which is read as data whatever its texts say.
    """
    form = next((name for name in _FORMS if name in allowed), None)
    asked = next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)
    if form is None or asked is None:
        return None
    return Calls((Request(form, _FORMS[form](_request(str(asked.text)))),))


def _request(text: str) -> Mapping[str, Any]:
    try:
        request = json.loads(text)
    except ValueError as broken:
        raise Invalid("the request for a lesson is not JSON", remedy="ask with a JSON object") from broken
    if not isinstance(request, dict):
        raise Invalid("the request for a lesson is not a JSON object", remedy="ask with a JSON object")
    return request
