"""What a chat model is sent about a page, read as turns: pure functions of the messages."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from providers.offline.exchange import Exchange, Step, results, step
from providers.offline.page_builder.words import spoken

EDITS: Final = frozenset(
    {"modify_element", "create_element", "delete_element", "move_element", "apply_theme", "clear_page"}
)
"""Tools that make a version, beside `undo`."""
UNDO: Final = "undo"
DESTRUCTIVE: Final = frozenset({"delete_element", "clear_page"})
"""Tools before which a person is asked."""


@dataclass(frozen=True)
class Turn:
    """What a person wrote, and everything the model did about it so far."""

    text: str
    steps: tuple[Step, ...] = ()

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Every tool call of the turn, oldest first."""
        return tuple(exchange for one in self.steps for exchange in one.exchanges)

    @property
    def edits(self) -> tuple[Exchange, ...]:
        """The edits that were made: each has a version."""
        return tuple(one for one in self.exchanges if one.name in EDITS and one.version)


@dataclass(frozen=True)
class Conversation:
    """Everything that is visible; the last turn is the one to answer."""

    turns: tuple[Turn, ...]
    tools: frozenset[str] = field(default_factory=frozenset)
    """Names of the tools that may be called now."""

    @property
    def turn(self) -> Turn:
        """The turn to answer now."""
        return self.turns[-1]

    @cached_property
    def language(self) -> str:
        """The language to answer in: that of the newest message that tells, English where none does."""
        return next((one for turn in reversed(self.turns) if (one := spoken(turn.text))), "english")

    @property
    def before(self) -> Turn | None:
        """The last turn before this one that changed the page, if nothing was undone since."""
        for turn in reversed(self.turns[:-1]):
            if turn.edits:
                return turn
            if any(one.name == UNDO and one.version for one in turn.exchanges):
                return None
        return None

    @property
    def edited(self) -> int:
        """How many turns before this one edited the page; at least one."""
        return max(1, sum(bool(turn.edits) for turn in self.turns[:-1]))

    def versions(self, steps: int) -> int:
        """Return how many versions the last `steps` turns that edited the page made; one for each unknown."""
        made = [len(turn.edits) for turn in reversed(self.turns[:-1]) if turn.edits][:steps]
        return sum(made) + (steps - len(made))


def read(messages: Sequence[BaseMessage], tools: frozenset[str] = frozenset()) -> Conversation | None:
    """Return the conversation `messages` hold, or None when nobody has said anything yet."""
    answered = results(messages)
    turns: list[Turn] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            turns.append(Turn(str(message.text).strip()))
        elif isinstance(message, AIMessage) and turns:
            turns[-1] = replace(turns[-1], steps=(*turns[-1].steps, step(message, answered)))
    return Conversation(tuple(turns), tools) if turns else None
