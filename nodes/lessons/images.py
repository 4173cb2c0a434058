"""Asks a person which images a lesson shows, if the caller wants that.

The search runs once the narration is ready, and again after a new choice of facts. Without a search engine or
results nothing is asked.
"""

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage

from callsheet.nodes.question import AnswerSession, Calls, Interrupt, refusal_update
from callsheet.state.errors import Invalid
from callsheet.state.lessons import images
from callsheet.state.lessons import images as pictures
from callsheet.state.lessons.images import (
    CHOICE_DONE,
    REQUEST,
    SCHEMA,
    SEARCH_PENDING,
    ChosenImages,
    NotAnImageChoice,
    OtherImages,
    Picture,
)
from callsheet.state.lessons.lesson import LessonState
from callsheet.state.versions import Version

_EFFECT: Final = "The images you choose are stored with the lesson, with their source and credit."


async def ask(session: AnswerSession, state: LessonState) -> dict[str, Any]:
    """Start the search for images, or ask which of them the lesson shows."""
    if state.get("picturing") == SEARCH_PENDING:
        return session.append_calls("I am searching for images.", [("findImagesTool", {})])
    search = await session.newest("images")
    offered = _pictures(search) if search else []
    if search is None or not offered:
        return {"picturing": CHOICE_DONE, "plan": None}
    question = image_question(search, offered)
    answer = session.answer(question, images=_with_numbers(offered), version=search.id)
    return await answer_update(session, answer)


async def answer_update(session: AnswerSession, answer: Any) -> dict[str, Any]:
    """Return the update of an answer: the plan of a choice, a refusal, or neither for words for the model."""
    search = await session.newest("images")
    try:
        read = pictures.read_choice(answer, _pictures(search) if search else [])
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
        REQUEST,
        {"images": shown},
        f"I found {count} for {search.data['words']!r}. Which shall the lesson show?",
        _EFFECT,
        SCHEMA,
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
