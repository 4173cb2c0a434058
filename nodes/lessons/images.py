"""Asks a person which images a lesson shows, if the caller wants that (B62).

The search runs once the narration is ready, and again after a new choice of facts. Without a search engine or
results nothing is asked.
"""

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from callsheet.nodes.node import Node
from callsheet.nodes.question import AnswerSession, Calls, Interrupt, answer_session, refusal_update
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.context import Context
from callsheet.state.errors import Invalid
from callsheet.state.lessons import assets
from callsheet.state.lessons import images as pictures
from callsheet.state.lessons.images import (
    CHOICE_DONE,
    REQUEST,
    SCHEMA,
    SEARCH_PENDING,
    ChosenImages,
    NotAChoice,
    OtherImages,
    Picture,
)
from callsheet.state.lessons.workflow import LessonState
from callsheet.state.versions import Version

_EFFECT: Final = "The images you choose are stored with the lesson, with their source and credit."


def image_selection_node(workflow: WorkflowSpec) -> Node[LessonState]:
    """Return the node that starts the search for images and asks which are shown."""

    async def select_images(state: LessonState, *, runtime: Runtime[Context]) -> dict[str, Any]:
        session = await answer_session(workflow, state, runtime)
        if state.get("picturing") == SEARCH_PENDING:
            return session.append_calls("I am searching for images.", [("findImagesTool", {})])
        search = await session.newest("images")
        offered = _pictures(search) if search else []
        if search is None or not offered:
            return {"picturing": CHOICE_DONE, "plan": None}
        try:
            read = pictures.read(
                session.answer(
                    image_question(search, offered), images=_with_numbers(offered), version=search.id
                ),
                offered,
            )
        except Invalid as error:
            return refusal_update(error)
        if isinstance(read, NotAChoice):
            return session.chat_update(read.text)
        if isinstance(read, OtherImages):
            return session.decision_update(
                "I am searching for other images.", [("findImagesTool", {"words": read.words[:300]})]
            )
        return await _choice_update(session, read)

    return select_images


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
    there = assets.live((await session.artefact.stream(assets.ASSETS)).versions)
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
