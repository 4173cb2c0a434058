"""Checks of a graph's input and context, and of answers to its questions, before the run is recorded.

Of input and context, only what is certain to fail is refused.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from inspect import isclass
from typing import Any, Final, cast

import jsonschema_rs
from langchain_core.messages import HumanMessage
from langgraph.channels import BinaryOperatorAggregate, LastValue
from langgraph.graph import START, add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from pydantic import BaseModel, ValidationError

from callsheet.server.engine.graph_factory import factory_of
from callsheet.server.engine.graph_states import describe_error
from callsheet.state import approvals, questions
from callsheet.state.errors import Invalid, InvalidArguments

_REDUCERS: Final = (add_messages, cast("Any", add_messages)().func)
"""LangGraph's reducer of messages, without and with options."""

MAX_MESSAGES: Final = 10_000
"""Messages that one request adds to a thread; each costs the server some 30 µs."""
_SHOWN_SCHEMA: Final = 500
"""Characters of a schema that an error shows."""


def check_input(graph: Pregel[Any, Any], given: Any, before: Mapping[str, Any] | None = None) -> None:
    """Raise `Invalid` for input that no state of the graph can take; `before` is that of `check_update`."""
    if given is None or not isinstance(graph, CompiledStateGraph) or "__root__" in graph.channels:
        return
    if not isinstance(given, dict):
        raise _misfit(graph, "the input", f"it is {type(given).__name__}, not an object")
    check_update(graph, given, before)
    schema = graph.builder.input_schema
    # A node with a schema of its own, or an edge past the nodes, may never read the field.
    own = any(node.input_schema is not schema for node in graph.builder.nodes.values())
    if not isclass(schema) or not issubclass(schema, BaseModel) or own or START in graph.builder.branches:
        return
    try:
        schema.model_validate(given)
    except ValidationError as error:
        for fault in error.errors():
            name = fault["loc"][0] if fault["loc"] else None
            # Earlier states and reducers may change what another field holds.
            if name in given and isinstance(graph.channels.get(str(name)), LastValue):
                raise _misfit(graph, repr(name), fault["msg"]) from error


def check_update(graph: Pregel[Any, Any], update: Any, before: Mapping[str, Any] | None = None) -> None:
    """Raise `Invalid` for messages that the graph cannot take; `update` is an object or a list of pairs.

    `before` has the values that the thread will have when the run starts; None if they are unknown, and then
    any message may be there to be removed.
    """
    channels = message_channels(graph)
    for name, value in _pairs(update):
        if name not in channels:
            continue
        if isinstance(value, list) and len(value) > MAX_MESSAGES:
            raise Invalid(
                f"{name!r} has {len(value):,} messages, and a request may have {MAX_MESSAGES:,}",
                remedy="send the new messages alone: a thread keeps its earlier ones",
            )
        held = _named_messages(value) if before is None else before.get(name) or []
        try:
            channels[name].from_checkpoint(held).update([value])
        except Exception as error:
            raise _misfit(graph, repr(name), describe_error(error)) from error


def check_context(graph: Pregel[Any, Any], context: Mapping[str, Any]) -> None:
    """Raise `Invalid` for a context that LangGraph cannot make the graph's own of."""
    schema = graph.context_schema
    if not isclass(schema) or not (is_dataclass(schema) or issubclass(schema, BaseModel)):
        return
    try:
        schema(**context)
    except Exception as error:
        raise Invalid(
            f"the context does not fit graph {graph.name!r}: {describe_error(error)}",
            remedy="send it as 'context'; see the assistant's context schema",
        ) from error


def check_nodes(graph: Pregel[Any, Any], names: str | Sequence[str] | None, name: str) -> None:
    """Raise `Invalid` for an interrupt at a node that the graph lacks, which would never come."""
    if not names or isinstance(names, str) or factory_of(graph):
        return
    # LangGraph stops at the input's own node, too.
    if unknown := [one for one in names if one not in graph.nodes]:
        nodes = [one for one in graph.nodes if one != START]
        raise Invalid(
            f"{name!r} has {unknown[0]!r}, which is no node of graph {graph.name!r}",
            remedy=f"use {', '.join(map(repr, nodes))}, or '*' for all",
        )


def removes_messages(update: Any) -> bool:
    """Return True if `update` may remove a message, which only a state that holds it can take."""
    objects = (one for _, value in _pairs(update) for one in _objects(value))
    return any("remove" in (one.get("role"), one.get("type")) for one in objects)


@cache
def message_channels(graph: Pregel[Any, Any]) -> Mapping[str, BinaryOperatorAggregate[Any]]:
    """Return the channels of the graph that hold messages, by name."""
    return {
        name: channel
        for name, channel in graph.channels.items()
        if isinstance(channel, BinaryOperatorAggregate)
        and getattr(channel.operator, "func", channel.operator) in _REDUCERS
    }


def _pairs(update: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(update, dict):
        yield from update.items()
    elif isinstance(update, list):
        for pair in update:
            if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str):  # noqa: PLR2004
                yield pair[0], pair[1]


def _named_messages(value: Any) -> list[HumanMessage]:
    """Return a message for each id in `value`."""
    return [HumanMessage("", id=one["id"]) for one in _objects(value) if isinstance(one.get("id"), str)]


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]


def _misfit(graph: Pregel[Any, Any], what: str, reason: str) -> Invalid:
    return Invalid(
        f"{what} does not fit graph {graph.name!r}: {reason}",
        remedy="see the assistant's input schema; a message has a role, such as user, and a content",
    )


def check_answer(question: Any, answer: Any) -> None:
    """Raise `InvalidArguments`, with the schema, for an answer that the question does not take."""
    schema = questions.response_schema(question)
    if schema is None:
        return
    try:
        approvals.check_answer(question, answer)
        problem = "" if questions.kind(question) == "plan" else _schema_problem(schema, answer)
    except Invalid as error:
        problem = f"{error.message}; {error.remedy}"
    if problem:
        shown = json.dumps(schema, ensure_ascii=False)
        rest = "…" if len(shown) > _SHOWN_SCHEMA else ""
        raise InvalidArguments(
            f"the answer does not fit the question: {problem}",
            remedy=f"send what its response_schema describes: {shown[:_SHOWN_SCHEMA]}{rest}",
            details={"responseSchema": schema},
        )


def _schema_problem(schema: Mapping[str, Any], answer: Any) -> str:
    """Return the first fault of an answer; empty for none, and for a schema that is none itself."""
    try:
        validator = jsonschema_rs.validator_for(dict(schema), retriever=_refuse_reference)
    except ValueError:
        return ""
    fault = next(validator.iter_errors(answer), None)
    return "" if fault is None else fault.message


def _refuse_reference(uri: str) -> Any:
    raise ValueError(f"{uri} is not part of the schema")
