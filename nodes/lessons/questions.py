"""The questions of a lesson, and the node that asks the one that is pending."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from langgraph.runtime import Runtime

from callsheet.nodes.lessons import images, review, selection
from callsheet.nodes.node import Node
from callsheet.nodes.question import AnswerSession, answer_session
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.context import Context
from callsheet.state.lessons.lesson import LessonState, pending_question


class Question(Protocol):
    """A question to a person; each is a module."""

    async def ask(self, session: AnswerSession, state: LessonState) -> dict[str, Any]:
        """Interrupt the run with the question, and return the update of the answer."""
        ...

    async def answer_update(self, session: AnswerSession, answer: Any) -> dict[str, Any]:
        """Return the update of an answer: a plan, a `problem`, or neither for words that the model reads."""
        ...


QUESTIONS: Final[Mapping[str, Question]] = {
    "select_facts": selection,
    "review_narration": review,
    "select_images": images,
}
"""Every question by the name of its action."""


def ask_node(workflow: WorkflowSpec[Any]) -> Node[LessonState]:
    """Return the node that asks the pending question."""

    async def ask(state: LessonState, *, runtime: Runtime[Context]) -> dict[str, Any]:
        name = pending_question(state)
        if name is None:
            return {}
        # Messages are answers in the planner; here only the interrupt is answered.
        session = replace(await answer_session(workflow, state, runtime), message=None)
        return await QUESTIONS[name].ask(session, state)

    return ask
