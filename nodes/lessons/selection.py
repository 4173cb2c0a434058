"""Asks a person for the facts of a lesson, and turns the answer into a plan."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from callsheet.nodes.question import AnswerSession, Calls, Interrupt, refusal_update
from callsheet.state.errors import Invalid
from callsheet.state.lessons import selection as answers
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.lesson import LessonState
from callsheet.state.lessons.selection import (
    REQUEST,
    SCHEMA,
    ChosenFacts,
    NotAFactChoice,
    OtherFacts,
    narration_arguments,
)
from callsheet.state.versions import Version

QUESTION: Final = ":question"
"""Suffix of the ids of messages that ask in words what an interrupt asks."""
_HOW_TO_ANSWER: Final = 'Answer with numbers, such as "1 and 3", with "all", or say what you want instead.'
_EFFECT: Final = "The facts you choose are confirmed, and the narration is written from them and no others."


async def ask(session: AnswerSession, state: LessonState) -> dict[str, Any]:
    """Ask which of the newest facts the lesson tells."""
    del state
    proposed = await session.newest("facts")
    if proposed is None:
        return {"choice": None, "plan": None}
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
    return await answer_update(session, answer)


async def answer_update(session: AnswerSession, answer: Any) -> dict[str, Any]:
    """Return the update of an answer: the plan of a choice, a refusal, or neither for words for the model."""
    proposed = await session.newest("facts")
    if proposed is None:
        return session.chat_update(str(answer))
    try:
        read = answers.read(answer, _facts(proposed, "facts"), _facts(proposed, "earlier"))
    except Invalid as error:
        return refusal_update(error)
    if isinstance(read, NotAFactChoice):
        return session.chat_update(read.text)
    remark = read.wish if isinstance(read, ChosenFacts) else ""
    return session.decision_update(*selection_calls(read), remark=remark)


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
        [{"facts": [one["id"] for one in facts[:3]]}, "1 and 3"],
    )


def question_text(extracted: Mapping[str, Any]) -> str:
    """Return the question in words, for front ends that show messages and no interrupt."""
    facts = (
        f"{number}. {one['concept']}: {one['details']}" for number, one in enumerate(extracted["facts"], 1)
    )
    return "\n".join([str(extracted["message"]), "", *facts, "", _HOW_TO_ANSWER])


def _facts(proposed: Version, name: str) -> list[Fact]:
    return [Fact.model_validate(one) for one in proposed.data.get(name, ())]


def selection_calls(read: ChosenFacts | OtherFacts) -> tuple[str, Calls]:
    """Return the reply to an answer, and its calls."""
    if isinstance(read, OtherFacts):
        return "I look for other facts.", [
            ("extractFactsTool", {"content": "", "guidance": read.guidance[:1000] or "other facts"})
        ]
    facts = [fact.model_dump() for fact in read.facts]
    names = ", ".join(fact.concept for fact in read.facts)
    return f"The lesson tells: {names}.", [
        ("confirmFactsTool", {"facts": facts}),
        ("generateNarrationTool", {"facts": [], **narration_arguments(read.wish, read.numbers)}),
    ]
