"""Lessons: a text becomes facts, a person chooses some, and they become a narrated script.

START → planner → tool_executor → planner … → summarizer → ask (interrupt) → planner … → END

The model has four tools: note the student, find the facts, note a choice, write the narration. Once facts are
proposed the thread waits for a person, in any process; also for a review and for images, if these are wanted.
Ids, numbers, "all" and buttons are read by code, other words by the model. A message that decides nothing is
answered, and the question stays pending.
"""

import json
import textwrap
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph import START, StateGraph

from callsheet import storage
from callsheet.graphs.loop import after_approval, planner_exit
from callsheet.nodes.approval import approval_node
from callsheet.nodes.flat_calls import example_turn
from callsheet.nodes.lean import LeanTool, choice, text
from callsheet.nodes.lessons.planning import LessonPlanning, chose_in_words, recorded_choice
from callsheet.nodes.lessons.questions import QUESTION, ask_node, question_text
from callsheet.nodes.node import Node
from callsheet.nodes.planner import planner_node
from callsheet.nodes.summarizer import summarizer_node
from callsheet.nodes.tool_executor import tool_executor_node
from callsheet.nodes.workflow import ArtefactSpec, LeanProfile, ModelView, TurnRules, WorkflowSpec
from callsheet.state.cards import Card
from callsheet.state.context import Context
from callsheet.state.conversation import turn_id
from callsheet.state.differences import Difference
from callsheet.state.errors import sentences
from callsheet.state.lessons import lesson
from callsheet.state.lessons.facts import fact_differences
from callsheet.state.lessons.images import CHOICE_DONE, SEARCH_PENDING
from callsheet.state.lessons.lesson import LessonState, pending_question
from callsheet.state.lessons.narration import OWN_WORDS, script_differences
from callsheet.state.lessons.outline import by_reference, material_id, outline, without_repetition
from callsheet.state.plan import StepResult
from callsheet.state.state_block import StateLine, fit
from callsheet.state.versions import Version
from callsheet.state.workflow import DraftMade
from callsheet.storage.artefacts.artefacts import Artefact, StreamHead
from callsheet.tools import REGISTRY
from callsheet.tools.call import Scope

PROPOSING: Final = frozenset({"extractFactsTool", "addFactsTool"})
"""Tools that propose facts."""


class LessonArtefact(ArtefactSpec[LessonState]):
    """A lesson: student, material, facts, narration, images."""

    def summary(self, stream: str, data: Mapping[str, Any]) -> str:
        """Return a version in one line."""
        return lesson.summary(stream, data)

    def differences(
        self, stream: str, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> list[Difference]:
        """Return the differences; of facts and narrations, those of what a person reads and hears."""
        if stream in {"facts", "confirmed"}:
            return fact_differences(before, after)
        if stream == "narration":
            return script_differences(before, after)
        return super().differences(stream, before, after)

    def card(self, state: LessonState, newest: Mapping[str, Mapping[str, Any]]) -> Card:
        """Return the lesson's topic and its texts."""
        del state
        return lesson.card(newest)

    def named_by(self, stream: str, data: Mapping[str, Any]) -> Collection[str]:
        """Return the version of the narration that has the words which a person lost."""
        del stream
        return list(data.get(OWN_WORDS, ()))

    def check_version(self, stream: str, data: Mapping[str, Any]) -> None:
        """Raise for data of a stream that no tool could have written."""
        lesson.check_version(stream, data)


class LessonModelView(ModelView[LessonState]):
    """The lesson's outline; long material by reference."""

    def facts(self, state: LessonState) -> Mapping[str, str]:
        """Return the subject, and that a person chooses among the facts."""
        return {"choice": "person", "subject": state.get("subject", "general")}

    def message(self, state: LessonState, message: AnyMessage) -> AnyMessage:
        """Return a message with long material by reference, and a result without what is shown elsewhere."""
        return without_repetition(by_reference(message, state.get("materials", {})))

    def state_block(self, state: LessonState, scope: Scope, heads: Mapping[str, StreamHead]) -> str:
        """Return student, material, facts and narration, and what the teacher is asked."""
        del scope
        newest = {name: head.newest for name, head in heads.items() if head.newest}
        return outline(newest, choosing=bool(state.get("choice")), reviewing=bool(state.get("reviewing")))


class LessonTurnRules(TurnRules[LessonState]):
    """A plan that proposes something leaves a question for the teacher."""

    def has_answer(self, state: LessonState) -> bool:
        """Return True if a person has written since facts were proposed last."""
        for message in reversed(state.get("messages", [])):
            if isinstance(message, HumanMessage):
                return True
            if isinstance(message, ToolMessage) and message.name in PROPOSING:
                return False
        return False

    def after_plan(
        self, state: LessonState, drafts: Sequence[DraftMade], results: Sequence[StepResult]
    ) -> dict[str, Any]:
        """Return the pending questions, and the choice that the model recorded, which is narrated next.

        The question that waits on says why no other facts were found.
        """
        choice = recorded_choice(results)
        chosen = {"chosen": choice, "answered": turn_id(state["messages"])} if choice else {}
        failed = [one["output"] for one in results if one["tool"] in PROPOSING and "error" in one["output"]]
        problem = {"problem": sentences(*_error_words(failed[-1]))} if failed and state.get("choice") else {}
        return {**problem, **_pending_questions(state, drafts), **chosen}

    def change_name(self, stream: str, output: Mapping[str, Any], newest: Version | None) -> str:
        """Return the stream's name for people."""
        del output, newest
        return "chosen facts" if stream == "confirmed" else stream

    def question_messages(self, results: Sequence[StepResult]) -> Sequence[AnyMessage]:
        """Return the question for the choice of facts, once facts were proposed."""
        outputs = [one["output"] for one in results if one["tool"] in PROPOSING and "facts" in one["output"]]
        return [AIMessage(question_text(output), id=f"{uuid.uuid4()}{QUESTION}") for output in outputs[-1:]]


class LeanLesson(LeanProfile):
    """The next step of a lesson: facts of a material, a choice of facts, another wording of the narration."""

    async def tools(self, state: LessonState, scope: Scope) -> list[LeanTool]:
        """Return the tools that the lesson as it is now has work for."""
        source, facts, narration = await _newest(scope, "source", "facts", "narration")
        if facts and state.get("choice"):
            return [_choice_of(_details(facts))]
        offered: list[LeanTool] = []
        if narration:
            parts = choice([one["id"] for one in narration.data["segments"]])
            fields = {"part": parts, "wish": text("How it shall be, in the teacher's words")}
            offered.append(LeanTool("rewrite", "Write one part again.", fields, _NARRATE, _rewriting))
        if facts:
            offered.append(_choice_of(_details(facts)))
        if source:
            known = choice([material_id(f"v{number}") for number in range(1, int(source.id[1:]) + 1)])
            about = "Find the facts of a material."
            offered.append(LeanTool("find_facts", about, {"material": known}, _EXTRACT, _finding))
        else:
            written = [one.text for one in state.get("messages", ()) if isinstance(one, HumanMessage)][-1:]
            about = "Find the facts of the text in the newest message."
            take = partial(_finding_in_text, "".join(written))
            offered.append(LeanTool("find_facts", about, {}, _EXTRACT, take))
        return offered

    async def state_block(self, state: LessonState, scope: Scope) -> str:
        """Return the facts by number while the teacher chooses; else the usual block."""
        [facts] = await _newest(scope, "facts")
        if not facts or not state.get("choice"):
            return ""
        return _choice_block(_details(facts))

    def examples(self, state: LessonState, text: str) -> Sequence[AnyMessage]:
        """Return choices among the facts of another lesson while the teacher chooses."""
        if not state.get("choice"):
            return ()
        known = json.loads(text)
        block, options = _choice_block(known["facts"]), _options(known["facts"])
        turns: list[AnyMessage] = []
        for one in known["turns"]:
            parts = {
                side: [
                    _part_of(words, [options[at - 1] for at in known_at])
                    for words, known_at in one[side].items()
                ]
                for side in _SIDES
            }
            turns += example_turn(block, one["teacher"], _CHOOSE, **parts)
        return turns


def _error_words(output: Mapping[str, Any]) -> tuple[str, str]:
    """Return why a call failed and what to do, as a person reads it."""
    error, remedy = str(output["error"]), str(output.get("suggestion", ""))
    return error[:1].upper() + error[1:], remedy


async def _newest(scope: Scope, *streams: str) -> list[Version | None]:
    """Return the newest versions of a lesson's streams."""
    artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
    return [head.newest for head in (await artefact.stream_heads(streams)).values()]


def _details(facts: Version) -> list[str]:
    return [one["details"] for one in facts.data["facts"]]


def _choice_block(details: Sequence[str]) -> str:
    lines = [StateLine(f"{number}. ", one) for number, one in enumerate(details, 1)]
    return fit([*lines, StateLine("The teacher is asked which of these facts the lesson tells.")])


def _options(details: Sequence[str]) -> list[str]:
    """Return each fact as a small model names it: its number, and words that keep it to that fact."""
    return [
        f"{number}. {textwrap.shorten(one, _OPTION_CHARS, placeholder='…')}"
        for number, one in enumerate(details, 1)
    ]


def _choice_of(details: Sequence[str]) -> LeanTool:
    """Return the tool for a choice in words: a small model reads it part by part, code puts it together."""
    named = choice(_options(details))
    several = {"type": "array", "items": named, "minItems": 2, "maxItems": len(details)}
    shapes = [_part_schema("fact", named), _part_schema("facts", several)]
    part = {"anyOf": shapes} if len(details) > 1 else shapes[0]
    about = "Note which facts the teacher chose in words."
    sides = {
        "wanted": "the teacher's words for facts that the lesson tells, each with those facts",
        "left_out": "the teacher's words for facts that it leaves out, each with those facts",
    }
    parts = {
        side: {
            "type": "array",
            "items": part,
            "minItems": int(side == "wanted"),
            "maxItems": 8,
            "description": text,
        }
        for side, text in sides.items()
    }
    return LeanTool(_CHOOSE, about, parts, "chooseFactsTool", _choosing)


def _part_schema(name: str, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a part: a small model that may name one or several names too many."""
    return {
        "type": "object",
        "properties": {"words": {"type": "string", "maxLength": _WORDS_CHARS}, name: named},
        "required": ["words", name],
        "additionalProperties": False,
    }


def _part_of(words: str, facts: Sequence[str]) -> dict[str, Any]:
    return {"words": words, "fact": facts[0]} if len(facts) == 1 else {"words": words, "facts": [*facts]}


_CHOOSE: Final = "choose_facts"
_SIDES: Final = ("wanted", "left_out")
_OPTION_CHARS: Final = 44
_WORDS_CHARS: Final = 80
_EXTRACT: Final = "extractFactsTool"
_NARRATE: Final = "generateNarrationTool"


def _rewriting(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"segments": [given.get("part")], "guidance": given.get("wish")}


def _choosing(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that are wanted and not left out, by number."""
    wanted, left_out = ([*_fact_names(given.get(side))] for side in _SIDES)
    chosen = dict.fromkeys(one for one in wanted if one not in left_out)
    return {"fact_ids": [one.partition(".")[0] for one in chosen]}


def _fact_names(parts: Any) -> Iterator[str]:
    """Yield the facts that the parts of a choice name; what no part is names none."""
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, Mapping):
            facts = part.get("facts")
            named = (part.get("fact"), *(facts if isinstance(facts, list) else ()))
            yield from (one for one in named if isinstance(one, str))


def _finding_in_text(content: str, given: Mapping[str, Any]) -> dict[str, Any]:
    del given
    return {"content": content}


def _finding(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"source_ids": [given.get("material")]}


class FactNarration(WorkflowSpec[LessonState]):
    """Narrated lessons from a text."""

    name = "fact_narration"
    title = "lessons"
    about = "A text or PDF becomes facts with their sources; you choose some, and they become a narration."
    examples = (
        (
            "Plants make sugar from light, water and air. The green stuff in leaves is called chlorophyll. "
            "It catches the light. Roots bring water from the soil to the leaves."
        ),
        (
            "My student is 9 and loves chess. Rivers begin as springs in hills and mountains. "
            "They carry sand and stones to the sea. Where a river slows down, it leaves the sand behind."
        ),
    )
    state = LessonState
    artefact = LessonArtefact("lesson", lesson.STREAMS, entry_streams=("source", "confirmed", "assets"))
    view = LessonModelView(streams=("student", "source", "facts", "confirmed", "narration"))
    turn = LessonTurnRules(is_conversational=True)
    lean = LeanLesson()

    def build(self, ask: Node[LessonState] | None = None) -> StateGraph[LessonState, Context]:
        """Return the graph's builder; `ask` replaces the node that asks a person."""
        builder = StateGraph(LessonState, context_schema=Context)
        builder.add_node("planner", planner_node(self, LessonPlanning(self)), input_schema=LessonState)
        builder.add_node("approval", approval_node(self, asks_decided=False), input_schema=LessonState)
        builder.add_node("tool_executor", tool_executor_node(self), input_schema=LessonState)
        builder.add_node("ask", ask or ask_node(self), input_schema=LessonState)
        builder.add_node("summarizer", summarizer_node(self), input_schema=LessonState)
        builder.add_edge(START, "planner")
        builder.add_conditional_edges("planner", planner_exit(self))
        builder.add_conditional_edges("approval", after_approval)
        builder.add_conditional_edges("tool_executor", after_tools)
        builder.add_conditional_edges("summarizer", after_summary)
        builder.add_conditional_edges("ask", after_question)
        return builder


def _pending_questions(state: LessonState, drafts: Sequence[DraftMade]) -> dict[str, Any]:
    """Return the pending questions: facts until they are narrated, then the narration, then images."""
    versions = {draft["stream"]: draft["versionId"] for draft in drafts}
    if "facts" in versions:
        return {"choice": versions["facts"], "problem": ""}
    plan = state.get("plan")
    called = {step["tool"] for step in (plan["steps"] if plan else ())}
    approved = "verifyNarrationTool" in called
    if "narration" not in versions:
        return _image_question(state, versions, called, stands=approved)
    reviewing = bool(state.get("review")) and not approved
    questions: dict[str, Any] = {
        "reviewing": reviewing,
        **_image_question(state, versions, called, stands=not reviewing),
    }
    chosen = state.get("decided") or "confirmed" in versions
    return questions | ({"choice": None, "problem": ""} if chosen else {})


def _image_question(
    state: LessonState, versions: Mapping[str, str], called: AbstractSet[str], *, stands: bool
) -> dict[str, Any]:
    """Return the state of the image question; a finished narration without images starts the search."""
    now = "" if "confirmed" in versions else state.get("picturing", "")
    if "images" in versions:
        return {"picturing": versions["images"]}
    if "findImagesTool" in called:
        return {"picturing": CHOICE_DONE if now == SEARCH_PENDING else now}
    if stands and state.get("images") and not now:
        return {"picturing": SEARCH_PENDING}
    return {"picturing": now}


def after_tools(state: LessonState) -> Literal["planner", "approval", "summarizer"]:
    """Return the next node: new facts and a person's plan end the turn, a recorded choice is narrated.

    After the narration of a choice in words the model ends the turn, since the message may have held more.
    """
    if state.get("plan"):
        return "approval"
    if state.get("chosen"):
        return "planner"
    proposed = any(draft["stream"] == "facts" for draft in state["created"])
    by_code = state.get("decided") and not chose_in_words(state["messages"])
    return "summarizer" if proposed or by_code else "planner"


def after_summary(state: LessonState) -> Literal["ask", "__end__"]:
    """Return the node that asks what is still pending, or the end."""
    return "ask" if pending_question(state) else "__end__"


def after_question(state: LessonState) -> Literal["planner", "ask", "__end__"]:
    """Return the next node: the planner for a decision or other words, the question again for a refusal."""
    if state.get("plan") or isinstance(state["messages"][-1], HumanMessage):
        return "planner"
    return "ask" if pending_question(state) else "__end__"


WORKFLOW: Final = FactNarration(REGISTRY.of("lesson"), REGISTRY.of("lesson", internal=True))
graph = WORKFLOW.graph
