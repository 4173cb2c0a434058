"""Asks a person for the facts of a lesson, and turns the answer into a plan (B47-B54)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from callsheet.nodes.node import Node
from callsheet.nodes.question import AnswerSession, Calls, Interrupt, answer_session, refusal_update
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.context import Context
from callsheet.state.errors import Invalid
from callsheet.state.lessons import selection as answers
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.lengths import seconds
from callsheet.state.lessons.selection import (
    REQUEST,
    SCHEMA,
    AddedFacts,
    Answer,
    Chosen,
    NotAChoice,
    OtherFacts,
)
from callsheet.state.lessons.selection_words import asks_to_choose_again, revise_selection
from callsheet.state.lessons.workflow import LessonState
from callsheet.state.versions import Version

QUESTION: Final = ":question"
"""Suffix of the ids of messages that ask in words what an interrupt asks."""
_HOW_TO_ANSWER: Final = 'Answer with numbers, such as "1 and 3", with "all", or say what you want instead.'
_EFFECT: Final = "The facts you choose are confirmed, and the narration is written from them and no others."


def fact_selection_node(workflow: WorkflowSpec) -> Node[LessonState]:
    """Return the node that asks for the facts of a lesson."""

    async def select_facts(state: LessonState, *, runtime: Runtime[Context]) -> dict[str, Any]:
        session = await answer_session(workflow, state, runtime)
        proposed = await session.newest("facts")
        if proposed is None:
            return {"choice": None, "plan": None}
        try:
            waits = bool(state.get("choice"))
            read = (
                _answer(session, proposed)
                if waits
                else _revision(session.message, await _confirmed_facts(session))
            )
        except Invalid as error:
            return refusal_update(error)
        if read is None:
            return {"messages": [AIMessage("Choose again.")], "choice": proposed.id, "plan": None}
        if isinstance(read, NotAChoice):
            return session.chat_update(read.text)
        return session.decision_update(
            *selection_calls(read), remark=read.wish if isinstance(read, Chosen) else ""
        )

    return select_facts


def _answer(session: AnswerSession, proposed: Version) -> Answer:
    data = proposed.data
    answer = session.answer(
        fact_question(proposed),
        facts=[{"number": number, **one} for number, one in enumerate(data["facts"], 1)],
        earlierFacts=data.get("earlier", []),
        topic=data["topic"],
        learningObjective=data["learningObjective"],
        warnings=data.get("warnings", []),
        version=proposed.id,
    )
    return answers.read(answer, _facts(proposed, "facts"), _facts(proposed, "earlier"))


async def _confirmed_facts(session: AnswerSession) -> list[Fact]:
    confirmed = await session.newest("confirmed")
    return _facts(confirmed, "facts") if confirmed else []


def _revision(message: str | None, confirmed: Sequence[Fact]) -> Answer | None:
    """Return how a message revises a confirmed choice; None to ask for a new choice."""
    text = message or ""
    if asks_to_choose_again(text):
        return None
    facts = revise_selection(text, confirmed)
    return NotAChoice(text) if facts is None else Chosen(facts)


def fact_question(proposed: Version) -> Interrupt:
    """Return the question about the proposed facts."""
    facts: Sequence[Mapping[str, Any]] = proposed.data["facts"]
    shown = [{key: one[key] for key in ("id", "concept", "details", "confidence")} for one in facts]
    count = f"{len(facts)} fact{'s' * (len(facts) != 1)}"
    return Interrupt(
        REQUEST,
        {"facts": shown},
        f"I found {count} about {proposed.data['topic']}. Which shall the lesson tell?",
        _EFFECT,
        SCHEMA,
        [{"facts": [one["id"] for one in facts[:3]]}, "the first two"],
    )


def question_text(extracted: Mapping[str, Any]) -> str:
    """Return the question in words, for front ends that show messages and no interrupt (B51)."""
    facts = (
        f"{number}. {one['concept']}: {one['details']}" for number, one in enumerate(extracted["facts"], 1)
    )
    return "\n".join([str(extracted["message"]), "", *facts, "", _HOW_TO_ANSWER])


def _facts(proposed: Version, name: str) -> list[Fact]:
    return [Fact.model_validate(one) for one in proposed.data.get(name, ())]


def selection_calls(read: Chosen | AddedFacts | OtherFacts) -> tuple[str, Calls]:
    """Return the reply to an answer, and its calls."""
    if isinstance(read, OtherFacts):
        return "I look for other facts.", [
            ("extractFactsTool", {"content": "", "guidance": read.guidance[:1000] or "other facts"})
        ]
    facts = [fact.model_dump() for fact in read.facts]
    names = ", ".join(fact.concept for fact in read.facts)
    if isinstance(read, AddedFacts):
        return f"I add: {names}.", [("addFactsTool", {"facts": facts})]
    return f"The lesson tells: {names}.", [
        ("confirmFactsTool", {"facts": facts}),
        ("generateNarrationTool", {"facts": [], **_narration_arguments(read.wish)}),
    ]


def _narration_arguments(wish: str) -> dict[str, Any]:
    """Return the narration's arguments: all of it for a wish, else the segments that the facts change."""
    if not wish:
        return {"segments": []}
    lasts = {"target_duration": seconds(wish)} if seconds(wish) else {}
    return {"guidance": wish[:1000], **lasts}
