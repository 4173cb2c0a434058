"""The lean profile: a few flat tools, a short prompt and ids to choose from, for small models.

A lean tool stands for a call of one of the workflow's own tools, which is what the plan and the conversation
have. A server with a grammar keeps the arguments to the schema, because each round must call one tool:
`answer` ends the turn, and `more_options` asks again with all tools. Where the server keeps answers to a
JSON Schema, the call is one JSON object (`flat_calls`).
"""

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from callsheet import providers
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.providers.routing import RoutingRequest, outages, route, tool_profile
from callsheet.state.conversation import turn_starts
from callsheet.tools.call import Scope
from callsheet.tools.registry import definitions

ANSWER: Final = "answer"
END: Final = "end_without_it"
"""Name of `answer` while something is missing: a small model would answer that it is done."""
MORE: Final = "more_options"
MAX_TOOLS: Final = 4
_FIRST_TURNS: Final = 2
"""Turns that make a model lean if the calls of each of them were invalid."""
Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class LeanTool:
    """One flat tool, all of whose arguments are required."""

    name: str
    description: str
    properties: Mapping[str, Mapping[str, Any]]
    target: str
    """Name of the workflow's tool that it stands for."""
    arguments: Callable[[Arguments], dict[str, Any]] = dict
    """Returns the arguments of the workflow's tool."""

    @property
    def definition(self) -> dict[str, Any]:
        """The tool in OpenAI's function format."""
        parameters = {
            "type": "object",
            "properties": dict(self.properties),
            "required": [*self.properties],
            "additionalProperties": False,
        }
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }


def text(description: str) -> Mapping[str, Any]:
    """Return the schema of a text."""
    return {"type": "string", "description": description}


def choice(options: Collection[str]) -> Mapping[str, Any]:
    """Return the schema of one of these texts."""
    return {"type": "string", "enum": [*options]}


_ENDS: Final = (
    LeanTool(ANSWER, "Tell or ask the person something, when nothing is to be done.", {"text": text("")}, ""),
    LeanTool(MORE, "Nothing above does what was asked: see all tools.", {}, ""),
)


@dataclass(frozen=True)
class Offer:
    """Prompt and tools that a model is offered in a round."""

    prompt: str
    definitions: Sequence[dict[str, Any]]
    lean: Mapping[str, LeanTool]
    """Lean tools by name; empty in the full profile."""
    state_block: str = ""
    """The artefact as it is now for a small model; empty for the usual block."""
    examples: Sequence[AnyMessage] = ()
    """Turns of a made-up conversation, for calls as JSON objects."""
    can_force: bool = True
    """False if the model's server refuses to make it call a tool."""

    @cached_property
    def names(self) -> Collection[str]:
        """Names of the offered tools."""
        return [one["function"]["name"] for one in self.definitions]

    def tool_choice(self, chosen: Any) -> Any:
        """Return the choice of tools: a lean round calls one, so that a grammar can keep its arguments."""
        return "required" if self.lean and self.can_force and chosen == "auto" else chosen

    def read(self, answer: AIMessage) -> AIMessage | None:
        """Return the answer in calls of the workflow's tools; None if all tools are wanted.

        Of several lean calls the first counts.
        """
        if not self.lean or not (answer.tool_calls or answer.invalid_tool_calls):
            return answer
        calls = answer.tool_calls[:1]
        broken = [] if calls else answer.invalid_tool_calls[:1]
        if any(call["name"] == MORE for call in (*calls, *broken)):
            return None
        if calls and calls[0]["name"] in {ANSWER, END}:
            reply = str(calls[0]["args"].get("text") or answer.text)
            return answer.model_copy(update={"content": reply, "tool_calls": [], "invalid_tool_calls": []})
        return answer.model_copy(
            update={
                "tool_calls": [self._own_call(call) for call in calls],
                "invalid_tool_calls": [{**call, "name": self._target(call["name"] or "")} for call in broken],
            }
        )

    def _own_call(self, call: Any) -> Any:
        tool = self.lean.get(call["name"])
        return {**call, "name": tool.target, "args": tool.arguments(call["args"])} if tool else call

    def _target(self, name: str) -> str:
        return self.lean[name].target if name in self.lean else name


def full_offer(workflow: WorkflowSpec[Any]) -> Offer:
    """Return the full profile of a workflow."""
    return Offer(workflow.prompt, definitions(workflow.tools), {})


async def offer_for(
    workflow: WorkflowSpec[Any],
    state: Any,
    scope: Scope,
    request: RoutingRequest,
    history: Sequence[AnyMessage],
) -> Offer:
    """Return what the model that answers this request is offered."""
    if workflow.lean is None or not _is_lean(request, history):
        return full_offer(workflow)
    own = await workflow.lean.tools(state, scope)
    when = await workflow.lean.ends_when(state, scope)
    ends = [replace(one, name=END, description=when) if when and one.name == ANSWER else one for one in _ENDS]
    offered: list[LeanTool] = [*own[: MAX_TOOLS - len(_ENDS)], *ends]
    tools = {one.name: one for one in offered}
    can_force = _server_of(request) not in _unforcing()
    block = await workflow.lean.state_block(state, scope)
    examples = workflow.lean.examples(state, workflow.lean_examples)
    defined = [one.definition for one in tools.values()]
    return Offer(workflow.lean_prompt, defined, tools, block, examples, can_force)


@cache
def _unforcing() -> set[tuple[str, str]]:
    """Return the process's own set of models, with their servers, that cannot be made to call a tool."""
    return set()


def _server_of(request: RoutingRequest) -> tuple[str, str]:
    spec = _spec_of(request)
    prefix = spec.partition("/")[0].upper()
    return spec, os.environ.get(f"{prefix}_BASE_URL", "")


def remember_unforcing(request: RoutingRequest) -> None:
    """Remember that the model of this request, on its server, cannot be made to call a tool."""
    _unforcing().add(_server_of(request))


def _spec_of(request: RoutingRequest) -> str:
    return route(request, providers.with_key(os.environ), failed=outages().current()).spec


def _is_lean(request: RoutingRequest, history: Sequence[AnyMessage]) -> bool:
    spec = _spec_of(request)
    profile = tool_profile(spec, os.environ)
    return profile == "lean" or (profile == "adaptive" and _fails_at_first(history))


def _fails_at_first(history: Sequence[AnyMessage]) -> bool:
    """Return True if each of the first turns had a call that did not fit its tool."""
    starts = turn_starts(history)[: _FIRST_TURNS + 1]
    turns = [history[start:end] for start, end in pairwise(starts)]
    return len(turns) == _FIRST_TURNS and all(any(map(_is_invalid, turn)) for turn in turns)


def _is_invalid(message: AnyMessage) -> bool:
    if not isinstance(message, ToolMessage):
        return False
    try:
        output = json.loads(message.text)
    except ValueError:
        return False
    return isinstance(output, dict) and output.get("type") == "validation_error"
