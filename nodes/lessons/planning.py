"""The planner of lessons: what code can decide needs no model."""

import asyncio
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.runtime import Runtime

from callsheet import providers, storage
from callsheet.nodes.asking import routing_request
from callsheet.nodes.lessons.questions import QUESTION, QUESTIONS, choice_text
from callsheet.nodes.node import run_context
from callsheet.nodes.planner import Planned, Planning
from callsheet.nodes.question import REFUSAL, AnswerSession, Calls, answer_session, decision_plan
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.providers.routing import route
from callsheet.state.approvals import consent
from callsheet.state.context import Context
from callsheet.state.conversation import turn_id
from callsheet.state.lessons import outline, selection
from callsheet.state.lessons.answer_reader import is_plain
from callsheet.state.lessons.lesson import LessonState, pending_question
from callsheet.state.lessons.outline import without_repetition
from callsheet.state.plan import StepResult
from callsheet.state.versions import Version
from callsheet.state.workflow import new_turn
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.tools.call import Scope
from callsheet.tools.lessons.sources import pasted_source
from callsheet.tools.models.structured import is_offline

CHOOSE: Final = "chooseFactsTool"
NARRATE: Final = "generateNarrationTool"
_ASKS: Final = re.compile("[?？؟]")
_AGAIN: Final = "You can choose the facts again; the narration stays until you do."
_CHOOSE_AGAIN: Final = re.compile(
    r"(?:please )?(?:choose|select|pick) (?:(?:the|other|different|more|fewer) ){0,2}facts(?: again)?"
)


class LessonPlanning(Planning):
    """Plans of lessons. Ids, numbers and "all" in a message are read by code; other words by the model."""

    def __init__(self, workflow: WorkflowSpec[Any]) -> None:
        """Plan for this workflow."""
        self._workflow = workflow

    async def without_model(self, state: LessonState, runtime: Runtime[Context]) -> dict[str, Any] | None:
        """Return the narration of a recorded choice, or a plain answer to the open question."""
        decided = await super().without_model(state, runtime)
        if decided is not None:
            return decided
        if choice := state.get("chosen"):
            return self._choice_update(choice)
        name = pending_question(state) if state["messages"] else None
        if name is None:
            return await self._reopened_update(state, runtime) or await self._extraction_update(
                state, runtime
            )
        session = await answer_session(self._workflow, state, runtime)
        if session.message is None or (name == selection.REQUEST and _answers_model(state, session)):
            return None
        words = (_choice_in(session.message) if name == selection.REQUEST else "") or session.message
        update = await QUESTIONS[name].answer_update(session, words)
        if update == session.chat_update(words):
            # Words that answer nothing are for the model.
            return None
        return {**update, "answered": turn_id(state["messages"])} if update["plan"] else update

    async def state_block(self, workflow: WorkflowSpec[Any], state: LessonState, scope: Scope) -> str:
        """Return the lesson as it is now, with every material that a call can name."""
        block = await super().state_block(workflow, state, scope)
        return "\n".join([block, *outline.earlier_materials(await _earlier_sources(scope))])

    async def prepare(
        self, state: LessonState, scope: Scope, history: Sequence[AnyMessage]
    ) -> tuple[Sequence[AnyMessage], Mapping[str, Any]]:
        """Store a message with a pasted text as a material of the lesson, and show long ones by reference.

        A model would copy the text into a tool's argument, slowly and in part. What a result repeats is left
        out of the copy that is sent.
        """
        known = await _with_stored(state, history[-1], scope)
        shown = [without_repetition(outline.by_reference(one, known)) for one in history]
        return shown, {"materials": known} if known else {}

    async def plan(
        self, workflow: WorkflowSpec[Any], state: LessonState, scope: Scope, answer: AIMessage
    ) -> Planned:
        """Return the plan of every call; with the turn's first, the refusal of an earlier answer is over."""
        planned = await super().plan(workflow, state, scope, answer)
        return planned if state.get("results") else planned._replace(state={"problem": ""})

    async def _reopened_update(self, state: LessonState, runtime: Runtime[Context]) -> dict[str, Any] | None:
        """Return the choice of the proposed facts once more, as a question or made; None for other words.

        The offline model asks nothing, so that numbers alone are a choice as well.
        """
        newest = state["messages"][-1] if state["messages"] else None
        words = newest.text.strip(" .!").casefold() if isinstance(newest, HumanMessage) else ""
        choice, is_again = _choice_in(words), bool(_CHOOSE_AGAIN.fullmatch(words))
        if not is_again and not choice:
            return None
        session = await answer_session(self._workflow, state, runtime)
        proposed = await session.newest("facts")
        if proposed is None or (choice == words and not is_again and not is_offline(session.scope.model)):
            return None
        if is_again:
            question = AIMessage(await choice_text(session, proposed), id=f"{uuid.uuid4()}{QUESTION}")
            return {
                **new_turn(),
                "messages": [AIMessage(_AGAIN), question],
                "choice": proposed.id,
                "plan": None,
                "problem": "",
            }
        update = await QUESTIONS[selection.REQUEST].answer_update(session, choice)
        return {**new_turn(), **update, "problem": ""}

    async def _extraction_update(
        self, state: LessonState, runtime: Runtime[Context]
    ) -> dict[str, Any] | None:
        """Return the search for facts in a message that is a material; None for any other."""
        newest = state["messages"][-1] if state["messages"] else None
        if not isinstance(newest, HumanMessage) or not outline.asks_for_facts_alone(newest.text):
            return None
        scope = self._workflow.scope(state, runtime)
        known = await _with_stored(state, newest, scope)
        if newest.id not in known:
            return None
        calls = [("extractFactsTool", {"source_ids": [known[str(newest.id)]]})]
        update = decision_plan(self._workflow, str(uuid.uuid4()), "", calls)
        chosen = route(routing_request(run_context(runtime), scope), providers.with_key(os.environ))
        return {
            **update,
            "messages": [AIMessage(**update["messages"][0])],
            # The model answers if the search fails.
            "decided": False,
            "materials": known,
            "provider": chosen.provider,
            "provider_reason": chosen.reason,
        }

    def _choice_update(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        words, calls = _choice_calls(choice)
        update = decision_plan(self._workflow, str(uuid.uuid4()), words, calls)
        kept = {key: update[key] for key in ("plan", "decided", "problem")}
        return {**kept, "messages": [AIMessage(**update["messages"][0])], "chosen": None}


def _choice_in(text: str) -> str:
    """Return the plain choice in words such as "choose 1 and 3"; empty for other words and a mere yes."""
    words = text.strip(" .!").casefold()
    choice = words.removeprefix("please ").removeprefix("choose ").removesuffix(" facts")
    return choice if is_plain(choice) and not consent(choice) else ""


async def _with_stored(state: LessonState, newest: AnyMessage, scope: Scope) -> dict[str, str]:
    """Return the ids of the materials that are messages, after the newest one is stored if it is one."""
    known = dict(state.get("materials", {}))
    if not isinstance(newest, HumanMessage) or newest.id in known or len(newest.text) <= outline.PASTED:
        return known
    if not outline.is_material(newest.text, is_first=True):
        return known
    artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
    stored = (await artefact.stream_head("source")).newest
    if (
        stored is None
        or outline.is_material(newest.text, is_first=False)
        # A run that ended before its checkpoint has stored this message.
        or stored.data["digest"] == pasted_source(newest.text, "the message").digest
    ):
        known[str(newest.id)] = await _store(newest.text, scope)
    return known


async def _store(text: str, scope: Scope) -> str:
    """Return the id of the material that has this text, and write it unless the newest one has it."""
    artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
    source = pasted_source(text, "the message")
    newest = (await artefact.stream_head("source")).newest
    if newest is None or newest.data["digest"] != source.digest:
        await artefact.open(owner=scope.owner, thread=scope.thread, facts={})
        created = await artefact.create_version(NewVersion("source", source.data(), scope.owner, scope.run))
        return outline.material_id(created["versionId"])
    return outline.material_id(newest.id)


async def _earlier_sources(scope: Scope) -> Sequence[Version]:
    """Return the materials before the newest one, in order, at most `outline.MAX_MATERIALS`."""
    artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
    newest = (await artefact.stream_head("source")).newest
    last = int(newest.id[1:]) if newest else 0
    numbers = range(max(1, last - outline.MAX_MATERIALS), last)
    return await asyncio.gather(*(artefact.version("source", f"v{number}") for number in numbers))


def _answers_model(state: LessonState, session: AnswerSession) -> bool:
    """Return whether "6" or "yes" may answer a question of the model, which has a tool to record a choice."""
    plain = session.message is not None and is_plain(session.message)
    return plain and not _follows_question(state["messages"]) and not is_offline(session.scope.model)


def _follows_question(messages: Sequence[AnyMessage]) -> bool:
    """Return whether a person's message follows the question of an interrupt, and none of the model's."""
    answers = _newest_answers(messages[:-1])
    by_code = [one for one in answers if str(one.id).endswith((QUESTION, REFUSAL))]
    by_model = (one.text for one in answers if one not in by_code)
    return bool(by_code) and answers[-1] is by_code[-1] and not any(map(_ASKS.search, by_model))


def chose_in_words(messages: Sequence[AnyMessage]) -> bool:
    """Return whether the model has recorded a choice since a person's newest message."""
    return any(call["name"] == CHOOSE for one in _newest_answers(messages) for call in one.tool_calls)


def _newest_answers(messages: Sequence[AnyMessage]) -> list[AIMessage]:
    """Return the answers to a person's newest message."""
    people = [at for at, message in enumerate(messages) if isinstance(message, HumanMessage)]
    return [one for one in messages[people[-1] if people else 0 :] if isinstance(one, AIMessage)]


def recorded_choice(results: Sequence[StepResult]) -> dict[str, Any] | None:
    """Return the person's choice that the model recorded in an executed plan and that is not narrated yet."""
    choices = [
        one["output"]["choice"] for one in results if one["tool"] == CHOOSE and "choice" in one["output"]
    ]
    narrated = any(one["tool"] == NARRATE and "narration" in one["output"] for one in results)
    return None if narrated or not choices else choices[-1]


def _choice_calls(choice: Mapping[str, Any]) -> tuple[str, Calls]:
    """Return the reply to a recorded choice, and the calls that follow it."""
    if additions := choice.get("additions"):
        return "I add these facts.", [("addFactsTool", {"facts": additions})]
    return str(choice["message"]), [(NARRATE, {"facts": [], **choice["narration"]})]
