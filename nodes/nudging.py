"""The one request to a model that is about to end a turn without an effect.

Code cannot read whether a person wants a change, nor whether a text claims one, so it does not try. It asks
after a failed edit, after a version that nothing has, and in a thread without an effect so far, where a
message without a mark that asks got no call. Any other turn without an effect ends with its receipt's line.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage

from callsheet.nodes.workflow import WorkflowSpec
from callsheet.providers import OFFLINE
from callsheet.providers.routing import Route
from callsheet.state.conversation import calls_of, newest_request, turn_starts
from callsheet.state.receipts import RECEIPT, has_effect
from callsheet.state.sentences import has_question
from callsheet.state.workflow import DraftMade, Workflow
from callsheet.tools.registry import Tool

NUDGE: Final = (
    "Nothing was changed in this turn. If the person asked for a change, call the tool now, or say why not. "
    "If they did not, answer them as before."
)
_VERSION: Final = re.compile(r"\bv[1-9]\d{0,5}\b")


@dataclass(frozen=True)
class TurnEnd:
    """A turn that a model is about to end."""

    workflow: WorkflowSpec[Any]
    state: Workflow
    history: Sequence[AnyMessage]
    created: Sequence[DraftMade]
    """Versions that the turn made."""
    sent: Sequence[AnyMessage]
    """The model's input."""

    def missing(self, route: Route, answer: AIMessage) -> str:
        """Return what the turn still lacks after this answer, as a request to the model; else empty."""
        if calls_of(answer):
            return ""
        if wish := self.workflow.turn.nudge(self.state, self.history, self.created):
            return wish
        # The offline model is code, which says what it did.
        if route.provider == OFFLINE or not _has_effects(self.workflow.tools):
            return ""
        if self.created or self._acted_outside():
            return ""
        return NUDGE if self._lacks_call() or _names_unknown_version(answer.text, self.sent) else ""

    def _acted_outside(self) -> bool:
        """Return True if a call of this turn had its effect outside our storage."""
        results, tools = self.state.get("results", ()), self.workflow.allowed_tools(self.state)
        plans = {str(one.id) for one in self._turn}
        acted = (one for one in results if one["status"] == "completed" and one["plan"] in plans)
        return any(one["tool"] in tools and tools[one["tool"]].outside for one in acted)

    @property
    def _turn(self) -> Sequence[AnyMessage]:
        starts = turn_starts(self.history)
        return self.history[starts[-1] :] if starts else self.history

    def _lacks_call(self) -> bool:
        """Return True if the last round has a failed write, or a thread without an effect got no call."""
        calling = [one for one in self._turn if calls_of(one)]
        if not calling:
            talks = self.workflow.turn.is_conversational or has_question(newest_request(self.history))
            return not (talks or _had_effect(self.history))
        return _has_failed_write(self.workflow.allowed_tools(self.state), self.state, str(calling[-1].id))


def _has_effects(tools: Mapping[str, Tool]) -> bool:
    return any(tool.writes or tool.outside for tool in tools.values())


def _has_failed_write(tools: Mapping[str, Tool], state: Workflow, plan: str) -> bool:
    """Return True if a call of the last round that writes has failed."""
    failed = [one for one in state.get("results", ()) if one["plan"] == plan and one["status"] == "error"]
    return any(one["tool"] not in tools or tools[one["tool"]].writes for one in failed)


def _had_effect(history: Sequence[AnyMessage]) -> bool:
    """Return True if an earlier turn had an effect, by the receipts beside its messages."""
    written = (one.additional_kwargs.get(RECEIPT) for one in history if isinstance(one, AIMessage))
    return any(has_effect(one) for one in written if one)


def _names_unknown_version(text: str, sent: Sequence[AnyMessage]) -> bool:
    """Return True if a text names a version that is nowhere in what the model was sent."""
    names = {*_VERSION.findall(text)}
    return bool(names) and not all(any(name in one.text for one in sent) for name in names)
