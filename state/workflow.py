"""What every workflow remembers of its thread."""

from typing import Annotated, NotRequired

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from callsheet.state.plan import Plan, StepResult


class Usage(TypedDict):
    """Tokens spent on a thread (A66)."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    """Part of `input_tokens` that a provider's prompt cache answered."""
    calls: int
    """Model calls."""


def add_usage(left: Usage | None, right: Usage | None) -> Usage:
    """Return the sum of two usages; an absent one is nothing."""
    a, b = left or _NOTHING, right or _NOTHING
    return Usage(
        input_tokens=a["input_tokens"] + b["input_tokens"],
        output_tokens=a["output_tokens"] + b["output_tokens"],
        cached_tokens=a["cached_tokens"] + b["cached_tokens"],
        calls=a["calls"] + b["calls"],
    )


_NOTHING = Usage(input_tokens=0, output_tokens=0, cached_tokens=0, calls=0)


class DraftMade(TypedDict):
    """A version a turn made (A-R9)."""

    stream: str
    versionId: str
    toolCallId: str


class Workflow(TypedDict):
    """The keys every workflow has."""

    messages: Annotated[list[AnyMessage], add_messages]
    """The whole conversation; never shortened."""
    plan: NotRequired[Plan | None]
    """The round in hand, or None."""
    decided: NotRequired[bool]
    """Whether a person's answer made the plan, and no model: what comes next is then decided too."""
    results: NotRequired[list[StepResult]]
    """What became of every step of this turn, in order."""
    created: NotRequired[list[DraftMade]]
    """Versions made in this turn, in order."""
    drafts: NotRequired[dict[str, str]]
    """Last version of each stream this turn made, by stream; what was not touched is absent (A56)."""
    rounds: NotRequired[int]
    """Rounds of tool calls this turn."""
    rejected: NotRequired[list[str]]
    """Fingerprints of the steps a person rejected this turn."""
    usage: NotRequired[Annotated[Usage, add_usage]]
    """Tokens of the whole thread."""
    summary: NotRequired[str]
    """What stands for the messages up to `summary_upto` when the model is called; empty before compaction."""
    summary_upto: NotRequired[str]
    """Id of the last message the summary covers."""
    provider: NotRequired[str]
    """Who answered this turn."""
    provider_reason: NotRequired[str]
    """Why that one (A-R1)."""
