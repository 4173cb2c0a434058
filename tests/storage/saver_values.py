"""Values for a state's channels, and edits of a list of messages."""

import copy
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base.id import uuid6

LEAVES = (None, 0, 1, True, 1.0, -3, 2**60, "", "a", "สวัสดี", "nul\0 and \1", b"\xff\0", Decimal("1.10"))
TREES: tuple[Any, ...] = (
    {},
    {"a": 1},
    {"a": True},
    {"a": {"b": [1.0, None]}},
    [],
    ["x", {"y": 2}],
    {"": "", "__type__": "x"},
)
KWARGS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"function": {"arguments": "{}"}},
    {"score": 1},
    {"score": True},
)
CALLS: tuple[list[dict[str, Any]], ...] = (
    [],
    [],
    [{"name": "mix", "args": {"fade_ms": 3}, "id": "c1"}, {"name": "cut", "args": {}, "id": "c2"}],
)

plain = st.sampled_from((*LEAVES, *TREES)).map(copy.deepcopy)
words = st.sampled_from(["", "a", "b", "你好", "e\u0301"])
ids = st.sampled_from([None, *(f"m{number}" for number in range(8))])
messages: st.SearchStrategy[BaseMessage] = st.one_of(
    st.builds(HumanMessage, words, id=ids, additional_kwargs=st.sampled_from(KWARGS).map(copy.deepcopy)),
    st.builds(AIMessage, words, id=ids, tool_calls=st.sampled_from(CALLS).map(copy.deepcopy)),
    st.builds(ToolMessage, words, id=ids, tool_call_id=words),
)
elements = messages | messages | plain | st.sampled_from([frozenset({1, 2}), Decimal("NaN")])
"""Elements of a list; of the last two the saver keeps no frozen copy, or they do not equal themselves."""

STEPS = ("append", "append", "append", "mutate", "mutate", "remove", "replace", "reorder", "again", "new")


@st.composite
def edits(draw: st.DrawFn, before: list[Any]) -> list[Any]:
    """`before` as a step of a graph may leave it: another list, with the same elements in part."""
    after = list(before)
    match draw(st.sampled_from(STEPS)):
        case "mutate" if changeable := [each for each in after if isinstance(each, BaseMessage | dict)]:
            _mutate(draw, draw(st.sampled_from(changeable)))
        case "remove" if after:
            del after[draw(st.integers(0, len(after) - 1))]
        case "replace" if after:
            after[draw(st.integers(0, len(after) - 1))] = draw(elements)
        case "reorder":
            after = draw(st.permutations(after))
        case "again":
            after = copy.deepcopy(after)
        case "new":
            after = draw(st.lists(elements, max_size=4))
        case _:
            after += draw(st.lists(elements, min_size=1, max_size=3))
    return after


def _mutate(draw: st.DrawFn, element: BaseMessage | dict[str, Any]) -> None:
    """Change it in place, as a node should not."""
    if isinstance(element, dict):
        element["a"] = draw(plain)
    elif draw(st.booleans()):
        element.content = f"{element.content}!"
    else:
        element.additional_kwargs["score"] = draw(plain)


def new_id() -> str:
    """An id for a checkpoint; later ones sort after it."""
    return str(uuid6(clock_seq=0))


def exact(value: Any) -> Any:
    """`value` with its types, so that 1, 1.0 and True are three different things."""
    if isinstance(value, BaseMessage):
        return type(value), exact(value.model_dump())
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [exact(item) for item in value]
    # Text of a number, so that not-a-number is as it was, too.
    return type(value), str(value) if isinstance(value, Decimal) else value
