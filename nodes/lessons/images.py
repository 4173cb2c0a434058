"""Asks a person which images a lesson shows, where the caller wants that (B62).

They are looked for once the narration stands, and again after a new choice of facts. Without a search, or
where nothing was found, nothing is asked.
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
from callsheet.state.lessons.images import OVER, REQUEST, SCHEMA, WANTED, Picture, Said, Shown, Sought
from callsheet.state.lessons.workflow import LessonState
from callsheet.state.versions import Version

_EFFECT: Final = "The images you choose are kept beside the lesson, with their source and whose they are."


def image_selection_node(workflow: WorkflowSpec) -> Node[LessonState]:
    """Return the node that has images looked for, and asks which of them are shown."""

    async def select_images(state: LessonState, *, runtime: Runtime[Context]) -> dict[str, Any]:
        session = await answer_session(workflow, state, runtime)
        if state.get("picturing") == WANTED:
            return session.append_calls("I look for images.", [("findImagesTool", {})])
        search = await session.newest("images")
        offered = _pictures(search) if search else []
        if search is None or not offered:
            return {"picturing": OVER, "plan": None}
        try:
            read = pictures.read(
                session.answer(image_question(search, offered), images=_with_numbers(offered), version=search.id),
                offered,
            )
        except Invalid as error:
            return refusal_update(error)
        if isinstance(read, Said):
            return session.chat_update(read.text)
        if isinstance(read, Sought):
            return session.decision_update(
                "I look for other images.", [("findImagesTool", {"words": read.words[:300]})]
            )
        return await _choice_update(session, read)

    return select_images


def image_question(search: Version, offered: Sequence[Picture]) -> Interrupt:
    """Return what a person is asked about the images that were found."""
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


async def _choice_update(session: AnswerSession, read: Shown) -> dict[str, Any]:
    """Return what a choice changes: each image that is not there yet is kept by a call of its own."""
    there = assets.live((await session.artefact.stream(assets.ASSETS)).versions)
    known = {version.data.get("url") for version in there}
    new = [one for one in read.images if one.url not in known]
    if not new:
        text = "These images are there already." if read.images else "The lesson shows none of these images."
        return {"messages": [AIMessage(text)], "picturing": OVER, "plan": None, "problem": ""}
    calls: Calls = [("addImageTool", {"image": one.model_dump()}) for one in new]
    names = ", ".join(one.title for one in new)
    return {**session.decision_update(f"The lesson shows: {names}.", calls), "picturing": OVER}


def _with_numbers(offered: Sequence[Picture]) -> list[dict[str, Any]]:
    return [{"number": number, **one.model_dump()} for number, one in enumerate(offered, 1)]


def _pictures(search: Version) -> list[Picture]:
    return [Picture.model_validate(one) for one in search.data["images"]]
