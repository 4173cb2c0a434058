"""The questions of a lesson to a person, and the node that asks the one that is pending.

A person chooses the facts; where the caller wants that, also approves the narration and chooses the images.
An answer becomes a plan; words that decide nothing go to the model as a message, and after a wish for the
narration the next one is asked about again. The search for images runs once the narration is ready, and again
after a new choice of facts; without a search engine or results nothing is asked.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from callsheet.nodes.node import Node
from callsheet.nodes.question import AnswerSession, Calls, Interrupt, answer_session, refusal_update
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.context import Context
from callsheet.state.errors import Invalid, Missing
from callsheet.state.lessons import images, narration, review, selection
from callsheet.state.lessons.images import (
    CHOICE_DONE,
    SEARCH_PENDING,
    ChosenImages,
    NotAnImageChoice,
    OtherImages,
    Picture,
)
from callsheet.state.lessons.lesson import LessonState, pending_question
from callsheet.state.lessons.narration import Narration
from callsheet.state.lessons.review import Approved, Wish
from callsheet.state.lessons.selection import (
    OTHERS,
    ChosenFacts,
    FactOffer,
    NotAFactChoice,
    OtherFacts,
    fact_offer,
    narration_arguments,
)
from callsheet.state.versions import Version

QUESTION: Final = ":question"
"""Suffix of the ids of messages that ask in words what an interrupt asks."""
_HOW_TO_ANSWER: Final = 'Answer with numbers, such as "1 and 3", with "all", or say what you want instead.'
_EARLIER: Final = "Found earlier, and still there to choose:"
_FACTS_EFFECT: Final = (
    "The facts you choose are confirmed, and the narration is written from them and no others."
)


async def _ask_facts(session: AnswerSession, state: LessonState) -> dict[str, Any]:
    """Ask which of the newest facts the lesson tells."""
    del state
    proposed = await session.newest("facts")
    if proposed is None:
        return {"choice": None, "plan": None}
    data, offer = proposed.data, await _offer(session, proposed)
    answer = session.answer(
        _fact_question(proposed),
        facts=offer.newest,
        earlierFacts=offer.earlier,
        chosenFacts=offer.chosen,
        topic=data["topic"],
        learningObjective=data["learningObjective"],
        warnings=data.get("warnings", []),
        version=proposed.id,
    )
    return await _facts_update(session, answer)


async def _facts_update(session: AnswerSession, answer: Any) -> dict[str, Any]:
    """Return the update of an answer: the plan of a choice, a refusal, or neither for words for the model."""
    proposed = await session.newest("facts")
    if proposed is None:
        return session.chat_update(str(answer))
    try:
        read = selection.read(answer, *(await _offer(session, proposed)).facts)
    except Invalid as error:
        return refusal_update(error)
    if isinstance(read, NotAFactChoice):
        return session.chat_update(read.text)
    remark = read.wish if isinstance(read, ChosenFacts) else read.guidance
    return session.decision_update(*selection_calls(read), remark=remark)


async def _offer(session: AnswerSession, proposed: Version) -> FactOffer:
    confirmed = await session.newest("confirmed")
    return fact_offer(proposed.data, confirmed.data if confirmed else {})


def _fact_question(proposed: Version) -> Interrupt:
    """Return the question about the proposed facts."""
    facts: Sequence[Mapping[str, Any]] = proposed.data["facts"]
    shown = [{key: one[key] for key in ("id", "concept", "details", "confidence")} for one in facts]
    count = f"{len(facts)} fact{'s' * (len(facts) != 1)}"
    return Interrupt(
        selection.REQUEST,
        {"facts": shown},
        f"I found {count} about {proposed.data['topic']}. Which shall the lesson tell?",
        _FACTS_EFFECT,
        selection.SCHEMA,
        [{"facts": [one["id"] for one in facts[:3]]}, "1 and 3"],
    )


def question_text(extracted: Mapping[str, Any]) -> str:
    """Return the question in words, for front ends that show messages and no interrupt."""
    facts, earlier = extracted["facts"], extracted.get("earlierFacts", ())
    lines = [
        f"{number}. {one['concept']}: {one['details']}" for number, one in enumerate((*facts, *earlier), 1)
    ]
    former = ["", _EARLIER, "", *lines[len(facts) :]] if earlier else []
    how = _HOW_TO_ANSWER.replace('"all"', '"all" for the new ones') if earlier else _HOW_TO_ANSWER
    return "\n".join([str(extracted["message"]), "", *lines[: len(facts)], *former, "", how])


async def choice_text(session: AnswerSession, proposed: Version) -> str:
    """Return the question about proposed facts in words."""
    offer = await _offer(session, proposed)
    shown = {"facts": offer.newest, "earlierFacts": offer.earlier}
    return question_text({"message": _fact_question(proposed).question, **shown})


def selection_calls(read: ChosenFacts | OtherFacts) -> tuple[str, Calls]:
    """Return the reply to an answer, and its calls."""
    if isinstance(read, OtherFacts):
        return "I look for other facts.", [
            ("extractFactsTool", {"content": "", "guidance": read.guidance[:1000] or OTHERS})
        ]
    facts = [fact.model_dump() for fact in read.facts]
    names = ", ".join(fact.concept for fact in read.facts)
    return f"The lesson tells: {names}.", [
        ("confirmFactsTool", {"facts": facts}),
        ("generateNarrationTool", {"facts": [], **narration_arguments(read.wish, read.numbers)}),
    ]


_REVIEW_EFFECT: Final = "Approving finishes the script; ask for changes and it is rewritten first."


async def _ask_review(session: AnswerSession, state: LessonState) -> dict[str, Any]:
    """Ask whether the newest narration is right."""
    del state
    newest = await session.newest("narration")
    if newest is None:
        return {"reviewing": False, "plan": None}
    answer = session.answer(review_question(newest), narration=newest.data, version=newest.id)
    return await _review_update(session, answer)


async def _review_update(session: AnswerSession, answer: Any) -> dict[str, Any]:
    """Return the update of an answer: the plan of an approval, a refusal, or neither for a wish."""
    newest = await session.newest("narration")
    if newest is None:
        return session.chat_update(str(answer))
    try:
        read = review.read(answer)
        if isinstance(read, Wish):
            return session.chat_update(read.text)
        calls = _approval_calls(read, newest)
    except (Invalid, Missing) as error:
        return refusal_update(error)
    return {**session.decision_update("The narration is right.", calls), "reviewing": False}


def _approval_calls(read: Approved, newest: Version) -> Calls:
    """Return the calls of an approval; raises as `narration.apply_edits`."""
    approved: tuple[str, dict[str, Any]] = ("verifyNarrationTool", {})
    if not read.edits:
        return [approved]
    narration.apply_edits(Narration.model_validate(newest.data), read.edits)
    edits = [one.model_dump(exclude_none=True) for one in read.edits]
    return [("editNarrationTool", {"edits": edits}), approved]


def review_question(narration: Version) -> Interrupt:
    """Return the question about a narration."""
    segments = narration.data["segments"]
    return Interrupt(
        review.REQUEST,
        {
            "segments": [
                {name: one[name] for name in ("id", "narration", "visual_guidance")} for one in segments
            ]
        },
        f"Is this narration about {narration.data['topic']} right?",
        _REVIEW_EFFECT,
        review.SCHEMA,
        ["yes", {"decisions": [{"type": "reject", "message": "make the hook shorter"}]}],
    )


_IMAGES_EFFECT: Final = "The images you choose are stored with the lesson, with their source and credit."


async def _ask_images(session: AnswerSession, state: LessonState) -> dict[str, Any]:
    """Start the search for images, or ask which of them the lesson shows."""
    if state.get("picturing") == SEARCH_PENDING:
        return session.append_calls("I am searching for images.", [("findImagesTool", {})])
    search = await session.newest("images")
    offered = _pictures(search) if search else []
    if search is None or not offered:
        return {"picturing": CHOICE_DONE, "plan": None}
    question = image_question(search, offered)
    answer = session.answer(question, images=_with_numbers(offered), version=search.id)
    return await _images_update(session, answer)


async def _images_update(session: AnswerSession, answer: Any) -> dict[str, Any]:
    """Return the update of an answer: the plan of a choice, a refusal, or neither for words for the model."""
    search = await session.newest("images")
    try:
        read = images.read_choice(answer, _pictures(search) if search else [])
    except Invalid as error:
        return refusal_update(error)
    if isinstance(read, NotAnImageChoice):
        return session.chat_update(read.text)
    if isinstance(read, OtherImages):
        return session.decision_update(
            "I am searching for other images.", [("findImagesTool", {"words": read.words[:300]})]
        )
    return await _choice_update(session, read)


def image_question(search: Version, offered: Sequence[Picture]) -> Interrupt:
    """Return the question about the images of a search."""
    shown = [one.model_dump(include={"id", "title", "url", "thumbnail", "page", "credit"}) for one in offered]
    count = f"{len(offered)} image{'s' * (len(offered) != 1)}"
    return Interrupt(
        images.REQUEST,
        {"images": shown},
        f"I found {count} for {search.data['words']!r}. Which shall the lesson show?",
        _IMAGES_EFFECT,
        images.SCHEMA,
        [{"images": [offered[0].id]}, "none"],
    )


async def _choice_update(session: AnswerSession, read: ChosenImages) -> dict[str, Any]:
    """Return the update for a choice: one call for each image that is not stored yet."""
    there = images.live_assets((await session.artefact.stream(images.ASSETS)).versions)
    known = {version.data.get("url") for version in there}
    new = [one for one in read.images if one.url not in known]
    if not new:
        text = "These images are there already." if read.images else "The lesson shows none of these images."
        return {"messages": [AIMessage(text)], "picturing": CHOICE_DONE, "plan": None, "problem": ""}
    calls: Calls = [("addImageTool", {"image": one.model_dump()}) for one in new]
    names = ", ".join(one.title for one in new)
    return {**session.decision_update(f"The lesson shows: {names}.", calls), "picturing": CHOICE_DONE}


def _with_numbers(offered: Sequence[Picture]) -> list[dict[str, Any]]:
    return [{"number": number, **one.model_dump()} for number, one in enumerate(offered, 1)]


def _pictures(search: Version) -> list[Picture]:
    return [Picture.model_validate(one) for one in search.data["images"]]


class Question(NamedTuple):
    """A question to a person."""

    ask: Callable[[AnswerSession, LessonState], Awaitable[dict[str, Any]]]
    """Interrupts the run with the question, and returns the update of the answer."""
    answer_update: Callable[[AnswerSession, Any], Awaitable[dict[str, Any]]]
    """Returns the update of an answer: a plan, a `problem`, or neither for words that the model reads."""


QUESTIONS: Final[Mapping[str, Question]] = {
    "select_facts": Question(_ask_facts, _facts_update),
    "review_narration": Question(_ask_review, _review_update),
    "select_images": Question(_ask_images, _images_update),
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
