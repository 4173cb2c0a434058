"""The caller's choices for one run: names and numbers, never clients or permissions."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict


class ToolName(TypedDict):
    """Name of a tool."""

    name: str


class NamedTool(TypedDict):
    """The tool to call first, in OpenAI's form."""

    type: Literal["function"]
    function: ToolName


class Context(TypedDict, total=False):
    """The caller's choices for one run."""

    model: NotRequired[str]
    """`provider/model` or `provider`; takes precedence over every other rule."""
    provider: NotRequired[str]
    """`openai`, `offline` …; takes precedence over the language rule."""
    complexity: NotRequired[str]
    """`simple` or `complex`."""
    budget: NotRequired[str]
    """`cost-effective` or `premium`."""
    max_rounds: NotRequired[int]
    """Rounds of tool calls in a turn before a text answer is forced."""
    parallel: NotRequired[int]
    """Steps that may run concurrently."""
    approve_plan: NotRequired[bool]
    """Require a person's approval before any step with an effect."""
    tool_choice: NotRequired[Literal["auto", "required"] | NamedTool]
    """Tool choice of the first model call of the turn; `auto` by default."""
