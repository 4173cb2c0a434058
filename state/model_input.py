"""The copy of a conversation that is sent to a model: valid for every vendor, whatever earlier models wrote.

Stored messages stay as they are. In the copy every call has a unique id, a legal name and an object of
arguments, and its result follows it; there are no results without a call and no empty messages.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage

from callsheet.state.answers import MAX_ID, legal_name
from callsheet.state.compaction import View, without_results
from callsheet.state.conversation import calls_of, messages_after

NOTHING_LEFT_OUT = View()
_NO_RESULT = '{"error": "The call was cancelled before it was carried out."}'


def model_input(
    system: str,
    messages: Sequence[AnyMessage],
    view: View = NOTHING_LEFT_OUT,
    *,
    pinned: str = "",
    lookups: Collection[str] = (),
) -> list[AnyMessage]:
    """Return the model's input: one system message, and the messages that `view` leaves.

    After a compaction the system message ends with `pinned`, word for word, and the summary. Until the
    next one the beginning is the same in every turn, so that a provider's prompt cache works.
    """
    parts = [system]
    if view.summary:
        parts += [f"The conversation began with this, word for word:\n{pinned}"] if pinned else []
        parts += [f"Previous conversation summary: {view.summary}"]
    recent = messages_after(messages, view.summary_upto if view.summary else "")
    visible = without_results(recent, view.cleared_upto, lookups)
    return [SystemMessage("\n\n".join(parts)), *valid_history(visible)]


def valid_history(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return a valid copy of a conversation."""
    copied: list[AnyMessage] = []
    taken: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        if isinstance(message, AIMessage) and (calls := calls_of(message)):
            results = list(takewhile(lambda one: isinstance(one, ToolMessage), messages[index + 1 :]))
            copied += _with_results(message, calls, results, taken)
        elif isinstance(message, AIMessage):
            _add_answer(copied, message)
        elif message.content or not isinstance(message, HumanMessage):
            copied.append(message)
    return copied


def _add_answer(copied: list[AnyMessage], message: AIMessage) -> None:
    """Add an answer in text; some templates refuse two in a row, so that they become one."""
    before = copied[-1] if copied else None
    if not message.text.strip():
        return
    if isinstance(before, AIMessage) and not before.tool_calls:
        copied[-1] = before.model_copy(update={"content": f"{before.text}\n\n{message.text}"})
    else:
        copied.append(message)


def _with_results(
    message: AIMessage, calls: Sequence[ToolCall], results: Sequence[AnyMessage], taken: set[str]
) -> Iterator[AnyMessage]:
    """Yield a message with calls, and a result for each of them."""
    left = list(results)
    renamed: list[ToolCall] = []
    answers: list[ToolMessage] = []
    for number, call in enumerate(calls):
        name = _unique_id(call["id"], f"{message.id}/{number}", taken)
        renamed.append({**call, "id": name, "name": legal_name(call["name"])})
        result = next((one for one in left if getattr(one, "tool_call_id", None) == str(call["id"])), None)
        if result is not None:
            left.remove(result)
        content = result.text if result is not None and result.text else _NO_RESULT
        answers.append(_result(result, content, name))
    yield message.model_copy(update={"tool_calls": renamed, "invalid_tool_calls": []})
    yield from answers


def _result(stored: AnyMessage | None, content: str, call: str) -> ToolMessage:
    if isinstance(stored, ToolMessage) and stored.text == content:
        return stored if stored.tool_call_id == call else stored.model_copy(update={"tool_call_id": call})
    return ToolMessage(content, tool_call_id=call)


def _unique_id(given: str | None, place: str, taken: set[str]) -> str:
    """Return the id if it is short and new in the conversation, else one made from its place."""
    known = str(given or "")
    if not known or len(known) > MAX_ID or known in taken:
        known = f"call_{hashlib.sha256(place.encode(errors='replace')).hexdigest()[:24]}"
    taken.add(known)
    return known
