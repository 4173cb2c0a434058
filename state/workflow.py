"""State that every workflow keeps in its thread."""

from typing import Annotated, Any, NotRequired

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from callsheet.state.compaction import ContextTokens
from callsheet.state.plan import Plan, StepResult
from callsheet.state.receipts import Receipt


class Usage(TypedDict):
    """Tokens spent on a thread."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    """Part of `input_tokens` read from the provider's prompt cache."""
    calls: int
    """Model calls."""


def add_usage(left: Usage | None, right: Usage | None) -> Usage:
    """Return the sum of two usages; None counts as zero."""
    a, b = left or _NOTHING, right or _NOTHING
    return Usage(
        input_tokens=a["input_tokens"] + b["input_tokens"],
        output_tokens=a["output_tokens"] + b["output_tokens"],
        cached_tokens=a["cached_tokens"] + b["cached_tokens"],
        calls=a["calls"] + b["calls"],
    )


_NOTHING = Usage(input_tokens=0, output_tokens=0, cached_tokens=0, calls=0)


class DraftMade(TypedDict):
    """A version created in a turn."""

    stream: str
    versionId: str
    toolCallId: str


class Repetition(TypedDict):
    """A person's request to do a step of an ended execution again."""

    step: str
    """Its id."""
    completed: bool
    """True if it is completed and repeated, False if it failed and is retried."""
    generation: int
    """Repetitions of the step when the person asked; if there are more now, it was done again already."""


class PausedPlan(TypedDict):
    """A plan that the executor has left paused; its record is in Redis."""

    plan: str
    """Its id."""
    changes: int
    """Changes by people in its record; a record with fewer is an older one, from a backup."""


class Workflow(TypedDict):
    """State keys common to all workflows."""

    messages: Annotated[list[AnyMessage], add_messages]
    """The complete conversation; never shortened."""
    plan: NotRequired[Plan | None]
    """The current round, or None."""
    paused: NotRequired[PausedPlan | None]
    """The plan if the executor has left it paused, or None."""
    decided: NotRequired[bool]
    """True when a person's answer made the plan; the next plan then needs no model either."""
    again: NotRequired[Repetition | None]
    """Step to do again; None once it is."""
    decision: NotRequired[str]
    """Id of the message by which a person decided a plan without a model."""
    results: NotRequired[list[StepResult]]
    """Results of this turn's steps, in order."""
    created: NotRequired[list[DraftMade]]
    """Versions created in this turn, in order."""
    drafts: NotRequired[dict[str, str]]
    """Id of the last version this turn created, by stream."""
    rounds: NotRequired[int]
    """Rounds of tool calls in this turn."""
    rejected: NotRequired[list[str]]
    """Fingerprints of the steps a person rejected in this turn."""
    receipt: NotRequired[Receipt | None]
    """Effects of this turn, by versions and errors; None before its end, and where nothing can be changed."""
    nudged: NotRequired[bool]
    """True if the model was asked once more in this turn, since it was about to end it without an effect."""
    truncated: NotRequired[bool]
    """True if the turn ended at its limit of rounds."""
    stopped: NotRequired[str]
    """Id of the message whose turn ended because a budget was not raised."""
    usage: NotRequired[Annotated[Usage, add_usage]]
    """Tokens of all turns."""
    summary: NotRequired[str]
    """Replaces the messages up to `summary_upto` in the model's input; empty before compaction."""
    summary_upto: NotRequired[str]
    """Id of the last message the summary covers."""
    cleared_upto: NotRequired[str]
    """Id of the message up to which the model's input lacks results of look-ups."""
    context_tokens: NotRequired[ContextTokens]
    """Tokens of the last request, and those that its model allows."""
    provider: NotRequired[str]
    """Provider that answered this turn."""
    provider_reason: NotRequired[str]
    """Reason for the provider."""


def new_turn() -> dict[str, Any]:
    """Return the keys of the state that begin anew with a turn, as JSON."""
    return {
        "results": [],
        "created": [],
        "drafts": {},
        "rounds": 0,
        "rejected": [],
        "receipt": None,
        "nudged": False,
        "truncated": False,
    }


def is_repetition(state: Workflow) -> bool:
    """Return True if a person wanted a step of an ended plan again: the model's calls are answered."""
    return bool(state.get("decided")) and state["messages"][-1].id == state.get("decision")
