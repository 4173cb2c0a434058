"""What the caller may choose for one run: names and numbers, never clients or permissions."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict


class ToolName(TypedDict):
    """A tool by its name."""

    name: str


class NamedTool(TypedDict):
    """The tool to begin with, in OpenAI's form."""

    type: Literal["function"]
    function: ToolName


class Context(TypedDict, total=False):
    """Choices for one run; all optional."""

    model: NotRequired[str]
    """`provider/model` or `provider`; wins over everything (A-R1)."""
    provider: NotRequired[str]
    """`openai`, `offline` …; wins over the language rule (A-R1)."""
    complexity: NotRequired[str]
    """`simple` or `complex` (A47)."""
    budget: NotRequired[str]
    """`cost-effective` or `premium` (A47)."""
    max_rounds: NotRequired[int]
    """Rounds of tool calls a turn may take before a text answer is forced (A-R11, A72)."""
    parallel: NotRequired[int]
    """Steps that may run at once (D26)."""
    approve_plan: NotRequired[bool]
    """Ask a person before any step with an effect."""
    tool_choice: NotRequired[Literal["auto", "required"] | NamedTool]
    """Whether the model may, or must, begin the turn with a call, or with which; `auto` (C7)."""
