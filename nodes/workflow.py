"""The specification of a workflow, in three parts: artefact, view of the model, rules of a turn.

Shared nodes call the parts. A workflow overrides what differs; the defaults do for the rest.
"""

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

from langchain_core.messages import AnyMessage
from langgraph.config import get_config
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.runtime import Runtime

from callsheet.nodes.node import EPOCH_KEY, OWNER_KEY, RUN_KEY, run_context
from callsheet.state.approvals import step_request
from callsheet.state.cards import Card
from callsheet.state.context import Context
from callsheet.state.conversation import first_requests, maker_of, newest_entered
from callsheet.state.differences import Difference, compare
from callsheet.state.errors import Broken, Invalid
from callsheet.state.live_plan import ANY, PlanRules
from callsheet.state.owners import LOCAL
from callsheet.state.plan import Plan, Step, StepResult, covers
from callsheet.state.versions import Version
from callsheet.state.workflow import DraftMade, Workflow
from callsheet.storage.artefacts.artefacts import Artefact, StreamHead
from callsheet.tools.call import Scope
from callsheet.tools.guard.outcome import tool_message
from callsheet.tools.prompts import FOLDER, named_version, read_prompt, tool_prompt_versions
from callsheet.tools.registry import Tool

if TYPE_CHECKING:
    from callsheet.nodes.lean import LeanTool

RECURSION_LIMIT: Final = 1_000
"""LangGraph's own bound on steps; the real bound is the planner's."""
MAX_ROUNDS: Final = 10
MAX_SUMMARY: Final = 80
"""Characters of a version's default summary."""
_KIND: Final = re.compile(r"[a-z][a-z0-9-]{0,30}")
_RESERVED: Final = frozenset(
    {"api-key", "callsheet", "caller", "cron", "crons", "owner", "runs", "thread", "tool"}
)
"""First parts of keys that do not belong to artefacts."""
_SPEC: Final = "_callsheet_workflow"
"""Attribute of a compiled graph."""
S = TypeVar("S", bound=Workflow)
"""State of a workflow."""


def workflow_of(graph: Pregel[Any, Any]) -> "WorkflowSpec[Any] | None":
    """Return the specification that a graph was compiled from; None for any other graph."""
    spec: WorkflowSpec[Any] | None = getattr(graph, _SPEC, None)
    return spec


@dataclass(frozen=True)
class ArtefactSpec(Generic[S]):
    """The artefact that a workflow makes. Keys, export, import and lists follow from it."""

    kind: str
    """First part of the artefact's keys."""
    streams: tuple[str, ...] = ()
    """Version streams that turns are summarised by; `scene-*` is a family of streams."""
    other_streams: tuple[str, ...] = ()
    """Further streams, which belong to the artefact and its export: uploads, for example."""
    entry_streams: tuple[str, ...] = ()
    """Those of the streams whose versions are entries of a list, such as uploads: none is ever removed."""

    def id_of(self, state: S, thread_id: str) -> str:
        """Return the id of the thread's artefact; by default the thread's."""
        del state
        return thread_id

    def summary(self, stream: str, data: Mapping[str, Any]) -> str:
        """Return a version in one line; by default its first text."""
        del stream
        text = next((str(value) for value in data.values() if isinstance(value, str)), "")
        return text if len(text) <= MAX_SUMMARY else f"{text[:MAX_SUMMARY]}…"

    def card(self, state: S, newest: Mapping[str, Mapping[str, Any]]) -> Card:
        """Return title and searched texts of a conversation; by default the first message is its title.

        `newest` has the data of the newest version of each of the `card_streams`. A client may have written
        the state, so nothing in it is sure.
        """
        del state, newest
        return Card()

    async def card_streams(self, artefact: Artefact) -> tuple[str, ...]:
        """Return the streams that the card is read from."""
        return await self.streams_of(artefact)

    def check_version(self, stream: str, data: Mapping[str, Any]) -> None:
        """Raise `Invalid`, or pydantic's error, for imported data that no tool could have written."""
        del stream, data

    def differences(
        self, stream: str, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> list[Difference]:
        """Return the differences between the data of two versions; empty for equal ones."""
        del stream
        return compare(before, after)

    def change_lines(self, parent: Version, version: Version) -> list[str]:
        """Return the differences between a version and its parent in words; empty for equal ones."""
        return [each["text"] for each in self.differences(version.stream, parent.data, version.data)]

    async def streams_of(self, artefact: Artefact) -> tuple[str, ...]:
        """Return the streams of an artefact that turns are summarised by; some workflows add streams."""
        del artefact
        return self.streams

    async def all_streams_of(self, artefact: Artefact) -> tuple[str, ...]:
        """Return every stream of an artefact."""
        return (*await self.streams_of(artefact), *self.other_streams)

    def named_by(self, stream: str, data: Mapping[str, Any]) -> Collection[str]:
        """Return the versions that the newest one of a stream needs, such as the one that undo restores."""
        del stream, data
        return ()

    async def needed_by_undo(self, artefact: Artefact, stream: str) -> Collection[str]:
        """Return the versions of a stream that its next undo needs and nothing else names."""
        del artefact, stream
        return ()

    def has_stream(self, name: str) -> bool:
        """Return True if artefacts of this kind may have a stream of this name."""
        return covers((*self.streams, *self.other_streams), name)


@dataclass(frozen=True)
class ModelView(Generic[S]):
    """A conversation and its artefact as the model and the tools are shown them."""

    streams: tuple[str, ...] | None = None
    """Streams that the state block shows; None for those of the artefact."""

    def state_block(self, state: S, scope: Scope, heads: Mapping[str, StreamHead]) -> str:
        """Return the artefact as it is now, in a short text for the model; empty for none."""
        del state, scope, heads
        return ""

    def opening(self, state: S) -> str | None:
        """Return the first user message where the input holds none."""
        del state
        return None

    def pinned_text(self, state: S, messages: Sequence[AnyMessage]) -> str:
        """Return what stays in the model's input word for word after a compaction: the first requests.

        `messages` are those that the summary covers.
        """
        del state
        return "\n\n".join(one.text for one in first_requests(messages))

    def message(self, state: S, message: AnyMessage) -> AnyMessage:
        """Return a message as the model is shown it."""
        del state
        return message

    def facts(self, state: S) -> Mapping[str, str]:
        """Return facts about the artefact that tools need."""
        del state
        return {}

    def selection(self, state: S) -> str:
        """Return the part of the artefact that the person has selected; empty for none."""
        del state
        return ""

    def brief_texts(self, state: S) -> tuple[str, str]:
        """Return what the person wrote before this turn and for it, for tools that compare their work."""
        del state
        return "", ""


@dataclass(frozen=True)
class TurnRules(Generic[S]):
    """The course of a turn: what it still lacks, and what an executed plan changes."""

    plan_rules: PlanRules = ANY
    """The rules in which its plans differ from those of other workflows."""
    max_rounds: int = MAX_ROUNDS
    """Rounds of tool calls in one turn before a text answer is forced, unless chosen otherwise."""
    is_conversational: bool = False
    """True if most messages want an answer and no change, so that a turn without a call is not doubted."""
    has_variations: bool = False
    """True if versions of one stream that the calls of one message make are variations, all to be named."""
    max_results: int | None = None
    """Tokens of look-ups' results above which they are left out after their turn; None while they fit."""

    def nudge(self, state: S, history: Sequence[AnyMessage], created: Sequence[DraftMade]) -> str:
        """Return what a turn that ends now still lacks, as a request to the model; empty for nothing.

        `created` has the versions that the turn made.
        """
        del state, history, created
        return ""

    def describe_step(self, state: S, step: Step, newest: Mapping[str, Version | None]) -> str:
        """Return a step's target or request in words; `newest` has the newest version by stream."""
        del state, newest
        return step_request(step["params"])

    def after_plan(
        self, state: S, drafts: Sequence[DraftMade], results: Sequence[StepResult]
    ) -> Mapping[str, Any]:
        """Return further state keys once a plan has ended; `drafts` are the versions that it created."""
        del state, drafts, results
        return {}

    def answer_messages(self, plan: Plan, results: Sequence[StepResult]) -> Sequence[AnyMessage]:
        """Return the messages that answer the calls of an executed or rejected plan."""
        del plan
        return [tool_message(result["id"], result["tool"], result["output"]) for result in results]

    def question_messages(self, results: Sequence[StepResult]) -> Sequence[AnyMessage]:
        """Return messages that ask what an interrupt asks next, for front ends that show messages alone."""
        del results
        return ()

    def has_answer(self, state: S) -> bool:
        """Return True if a person has written since the last question."""
        del state
        return False

    def closing_notes(self, state: S) -> Sequence[str]:
        """Return what the person should know of this turn's work, for its receipt."""
        del state
        return ()

    def change_name(self, stream: str, output: Mapping[str, Any], newest: Version | None) -> str:
        """Return the part that a call has changed in a person's words, by its output; by default the stream.

        `newest` is the stream's newest version.
        """
        del output, newest
        return stream


class LeanProfile(Protocol):
    """The lean profile of a workflow, whose prompt is the file `prompts/<name>.lean.md`."""

    async def tools(self, state: Any, scope: Scope) -> "Sequence[LeanTool]":
        """Return two flat tools at most, with ids of the artefact as it is now."""
        ...

    async def ends_when(self, state: Any, scope: Scope) -> str:
        """Return when the turn may end, for a small model that would call it done; empty for always."""
        del state, scope
        return ""

    async def state_block(self, state: Any, scope: Scope) -> str:
        """Return the artefact as it is now in lines that a small model reads; empty for the usual block."""
        del state, scope
        return ""

    def examples(self, state: Any, text: str) -> "Sequence[AnyMessage]":
        """Return the turns of a made-up conversation that a small model reads first; none as a rule.

        `text` is the file `prompts/<name>.lean.examples.json`.
        """
        del state, text
        return ()


class WorkflowSpec(ABC, Generic[S]):
    """A workflow. A subclass names its parts and builds its graph.

    Its module holds one instance and, beside it, `graph = <instance>.graph`, which langgraph.json names.
    """

    name: ClassVar[str]
    """The graph's name, as in langgraph.json."""
    title: ClassVar[str] = ""
    """Plural, for people: "audio ads"."""
    about: ClassVar[str] = ""
    """One sentence for people who have never used it."""
    examples: ClassVar[tuple[str, ...]] = ()
    """First requests that every model answers, the offline one too."""
    state: ClassVar[type[Any]] = Workflow
    """Keys that the graph remembers."""
    artefact: ArtefactSpec[S]
    view: ModelView[S] = ModelView()
    turn: TurnRules[S] = TurnRules()
    lean: LeanProfile | None = None
    """Prompt and tools for small models; None offers them what all models are offered."""

    def __init__(self, tools: Mapping[str, Tool], internal_tools: Mapping[str, Tool] | None = None) -> None:
        """Offer `tools` to the model; `internal_tools` execute a person's answers, or a submitted plan.

        Raises `Broken` for a kind that cannot be part of a key.
        """
        kind = self.artefact.kind
        if not _KIND.fullmatch(kind) or kind in _RESERVED:
            raise Broken(
                f"workflow {self.name!r} has kind {kind!r}",
                remedy=f"use lower-case letters, digits and -, and none of {', '.join(sorted(_RESERVED))}",
            )
        self.tools = tools
        self.internal_tools = internal_tools or MappingProxyType({})

    @abstractmethod
    def build(self) -> StateGraph[Any, Context]:
        """Return the graph's builder."""

    @cached_property
    def graph(self) -> Pregel[Any, Any]:
        """The compiled graph, without storage, which the server attaches."""
        graph: Pregel[Any, Any] = (
            self.build()
            .compile(name=self.name)
            .with_config(recursion_limit=RECURSION_LIMIT, metadata=self._prompt_metadata())
        )
        setattr(graph, _SPEC, self)
        return graph

    def _prompt_metadata(self) -> dict[str, str]:
        """Return the versions of the workflow's prompt and of its tools' inner ones."""
        inner = tool_prompt_versions([*self.tools.values(), *self.internal_tools.values()])
        return {"prompt": self.prompt_version, **({"tool_prompts": inner} if inner else {})}

    @cached_property
    def prompt(self) -> str:
        """The system prompt: the file `prompts/<name>.md` beside the module of the class; empty for none.

        It is the same in every turn, for the provider's prompt cache.
        """
        return self._prompt_file(self.name)

    @cached_property
    def lean_prompt(self) -> str:
        """The system prompt of the lean profile."""
        return self._prompt_file(f"{self.name}.lean")

    @cached_property
    def lean_examples(self) -> str:
        """The examples of the lean profile, as JSON; empty where there are none."""
        file = self._prompt_folder().joinpath(f"{self.name}.lean.examples.json")
        return file.read_text("utf-8") if file.is_file() else ""

    def _prompt_file(self, name: str) -> str:
        return read_prompt(self._prompt_folder(), name)

    def _prompt_folder(self) -> Path:
        return Path(inspect.getfile(type(self))).with_name(FOLDER)

    @property
    def prompt_version(self) -> str:
        """Name and content hash of the prompts, which every checkpoint and trace has as metadata."""
        return named_version(self.name, self.prompt, self.lean_prompt, self.lean_examples)

    @property
    def block_streams(self) -> tuple[str, ...]:
        """Streams that the state block shows."""
        return self.artefact.streams if self.view.streams is None else self.view.streams

    def allowed_tools(self, state: Workflow) -> Mapping[str, Tool]:
        """Return the tools that the plan may call: internal ones too for a plan that a person decided."""
        return {**self.tools, **self.internal_tools} if state.get("decided") else self.tools

    def scope(self, state: S, runtime: Runtime[Context]) -> Scope:
        """Return the owner, thread and artefact of this run, as far as the host sets them.

        Raises `Invalid` without a thread id, since nothing could be remembered.
        """
        configurable = get_config().get("configurable", {})
        context = run_context(runtime)
        thread = str(configurable.get("thread_id") or "")
        if not thread:
            raise Invalid(
                "the run has no thread id", remedy='pass config={"configurable": {"thread_id": "…"}}'
            )
        info = runtime.execution_info
        task = info.task_id if info else ""
        shared: Workflow = state
        plan = shared.get("plan")
        brief, request = self.view.brief_texts(state)
        return Scope(
            owner=str(configurable.get(OWNER_KEY) or LOCAL),
            thread=thread,
            kind=self.artefact.kind,
            artefact=self.artefact.id_of(state, thread),
            run=str(configurable.get(RUN_KEY) or task),
            task=task,
            plan=plan["id"] if plan else "",
            epoch=int(configurable.get(EPOCH_KEY) or 0),
            facts=self.view.facts(state),
            brief=brief,
            request=request,
            words=newest_entered(state["messages"]),
            maker=maker_of(state["messages"], shared.get("provider", "")),
            has_answer=self.turn.has_answer(state),
            earlier_drafts=tuple((item["stream"], item["versionId"]) for item in shared.get("created", [])),
            selected=self.view.selection(state),
            model=context.get("model") or context.get("provider") or shared.get("provider") or "",
            patient=bool(plan and len(plan["steps"]) > 1),
        )
