"""Planner: calls the model and turns its tool calls into a plan."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime

from callsheet import storage
from callsheet.nodes.asking import GatedAnswer, ask_model, ask_through_gate, routing_request
from callsheet.nodes.budget import STOPPED, Declined, within_budget
from callsheet.nodes.compacting import lookups_of, pinned_text, view_of
from callsheet.nodes.node import Node, run_context
from callsheet.nodes.pausing import cancel_if_open
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.providers.routing import Route, RoutingRequest
from callsheet.state import conversation
from callsheet.state.compaction import ContextTokens
from callsheet.state.context import Context
from callsheet.state.errors import Invalid
from callsheet.state.model_input import model_input
from callsheet.state.plan import Plan, Step, fingerprint, with_dependencies
from callsheet.state.state_block import with_state_block
from callsheet.state.tokens import estimate_messages, estimate_tools
from callsheet.state.workflow import DraftMade, Workflow
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.plans import Executions
from callsheet.storage.spending import Account
from callsheet.tools.call import Scope
from callsheet.tools.guard.attempt import abandoned_outcome
from callsheet.tools.guard.outcome import Outcome, tool_message
from callsheet.tools.guard.record import close
from callsheet.tools.registry import definitions

_log = logging.getLogger(__name__)
_OPENING_SUFFIX: Final = ":opening"
"""Suffix of the ids of opening messages."""


class Planned(NamedTuple):
    """The meaning of a model's answer."""

    plan: Plan | None = None
    messages: Sequence[AnyMessage] = ()
    """Messages behind the answer: results of calls that cannot be planned."""
    state: Mapping[str, Any] = MappingProxyType({})
    """Further keys of the state."""


class Planning:
    """The part of a planner that workflows may replace; by default every call is a step."""

    is_checked: ClassVar[bool] = False
    """True if code checks the model's words before anybody reads them, so that they are not streamed."""

    async def state_block(self, workflow: WorkflowSpec[Any], state: Any, scope: Scope) -> str:
        """Return the artefact as it is now in a short text, sent behind the last message and not stored."""
        artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
        streams = workflow.block_streams
        heads = await asyncio.gather(*(artefact.stream_head(name) for name in streams))
        return workflow.view.state_block(state, scope, dict(zip(streams, heads, strict=True)))

    async def ask(
        self,
        routing: RoutingRequest,
        sent: Sequence[AnyMessage],
        *,
        tools: Sequence[dict[str, Any]],
        choice: Any,
    ) -> tuple[Route, AIMessage]:
        """Return the model's answer with the route to it; checked words are not streamed."""
        return await ask_model(routing, sent, tools=tools, choice=choice, is_hidden=self.is_checked)

    async def without_model(self, state: Any, runtime: Runtime[Context]) -> dict[str, Any] | None:
        """Return the planner's update where a person has decided or code can; None asks the model."""
        del runtime
        plan = state.get("plan")
        own = (plan["id"], state.get("decision")) if plan else ()
        decided = plan and state.get("decided") and state["messages"][-1].id in own
        return {} if decided else None

    async def prepare(
        self, state: Any, scope: Scope, history: Sequence[AnyMessage]
    ) -> tuple[Sequence[AnyMessage], Mapping[str, Any]]:
        """Return the messages as the model is sent them, and further keys of the state."""
        del state, scope
        return history, {}

    async def plan(self, workflow: WorkflowSpec[Any], state: Any, scope: Scope, answer: AIMessage) -> Planned:
        """Return the plan that the calls of an answer mean."""
        del state, scope
        return Planned(plan_of_calls(workflow, answer))

    async def outcome_of_open_call(self, state: Any, scope: Scope, call_id: str) -> Outcome | None:
        """Cancel the execution that an earlier run left open; None looks for the receipt of its call."""
        del call_id
        if plan := state.get("plan"):
            executions = Executions(await storage.current(), scope.kind, scope.artefact, scope.owner)
            await cancel_if_open(executions, plan["id"])
        return None


def planner_node(workflow: WorkflowSpec[Any], planning: Planning | None = None) -> Node[Workflow]:
    """Return the planner node."""
    own = planning or Planning()

    async def planner(state: Workflow, *, runtime: Runtime[Context]) -> dict[str, Any]:
        if (update := await own.without_model(state, runtime)) is not None:
            return update
        scope = workflow.scope(state, runtime)
        history, repaired = await _history(workflow, own, state, scope)
        fresh = isinstance(history[-1], HumanMessage)
        turn: Mapping[str, Any] = {} if fresh else state
        rounds, rejected, created = turn.get("rounds", 0), turn.get("rejected", []), turn.get("created", [])
        shown, prepared = await own.prepare(state, scope, history)
        sent = await _sent(workflow, own, state, scope, shown)
        account = Account(scope.owner, scope.thread, conversation.turn_id(history))
        choice = _tool_choice(workflow, run_context(runtime), rounds)
        routing = routing_request(run_context(runtime), scope)
        ask = partial(own.ask, routing, tools=(tools := definitions(workflow.tools)), choice=choice)
        lacks = None if choice == "none" or rejected else partial(_missing, workflow, state, history, created)
        gate = partial(ask_through_gate, ask, sent, history, workflow.tools, lacks)
        try:
            gated = await within_budget(account, gate, state.get("stopped"))
        except Declined:
            return _end_turn([*repaired, AIMessage(STOPPED)], account.turn)
        answer = _last_answer(gated.message, scope, turn) if choice == "none" else gated.message
        planned = await own.plan(workflow, state, scope, answer)
        answer, planned = _without_rejected(answer, planned, rejected)
        return {
            "messages": [*repaired, answer, *planned.messages],
            "plan": planned.plan,
            "decided": False,
            "rounds": rounds + 1,
            "rejected": rejected,
            **_model_update(estimate_messages(sent) + estimate_tools(tools), gated),
            **(_new_turn(state) if fresh else {}),
            **prepared,
            **planned.state,
        }

    return planner


def _new_turn(state: Workflow) -> dict[str, Any]:
    """Return the keys of the state that begin anew with a person's message."""
    return {"results": [], "created": [], "drafts": {}, **({"paused": None} if state.get("paused") else {})}


def _without_rejected(
    answer: AIMessage, planned: Planned, rejected: Sequence[str]
) -> tuple[AIMessage, Planned]:
    """Return an answer with its plan; without both if a step is one that the person rejected in this turn."""
    steps = planned.plan["steps"] if planned.plan else ()
    again = any(fingerprint(step) in rejected for step in steps)
    return (_without_calls(answer), Planned()) if again else (answer, planned)


async def _sent(
    workflow: WorkflowSpec[Any],
    planning: Planning,
    state: Workflow,
    scope: Scope,
    history: Sequence[AnyMessage],
) -> list[AnyMessage]:
    """Return the model's input."""
    sent = model_input(
        workflow.prompt,
        history,
        view_of(state),
        pinned=pinned_text(workflow, state, history),
        lookups=lookups_of(workflow),
    )
    return with_state_block(sent, await planning.state_block(workflow, state, scope))


def _model_update(estimate: int, gated: GatedAnswer) -> dict[str, Any]:
    """Return the provider with its reason, and the tokens as the vendor counts them, or else estimated.

    The vendor counts what was sent; a conversation that had to be shortened counts whole.
    """
    counted = gated.message.usage_metadata
    complete = counted is not None and estimate <= gated.route.input_budget
    used = counted["total_tokens"] if counted and complete else estimate + estimate_messages([gated.message])
    return {
        "usage": gated.usage,
        "provider": gated.route.provider,
        "provider_reason": gated.route.reason,
        "context_tokens": ContextTokens(used=used, budget=gated.route.input_budget),
    }


def _end_turn(messages: Sequence[BaseMessage], turn: str) -> dict[str, Any]:
    return {"messages": messages, "plan": None, "decided": False, "stopped": turn}


def _missing(
    workflow: WorkflowSpec[Any],
    state: Workflow,
    history: Sequence[AnyMessage],
    created: Sequence[DraftMade],
    answer: AIMessage,
) -> str:
    """Return what the turn still lacks when the model is about to end it, as a request to the model."""
    return "" if conversation.calls_of(answer) else workflow.turn.nudge(state, history, created)


async def _history(
    workflow: WorkflowSpec[Any], planning: Planning, state: Workflow, scope: Scope
) -> tuple[list[AnyMessage], list[BaseMessage]]:
    """Return the conversation with every call answered, and the state update that adds the missing answers.

    Calls that a cancelled or crashed run left open are answered from their receipts, else as cancelled, right
    after the message that made them. A run without a message starts with the workflow's opening, if any.
    """
    messages = list(state["messages"])
    dangling = dict(conversation.unanswered_calls(messages))
    opening = workflow.view.opening(state)
    opening_messages: list[AnyMessage] = []
    if opening is not None and _needs_opening(messages, dangling, opening):
        opening_messages.append(HumanMessage(opening, id=f"{scope.run}{_OPENING_SUFFIX}"))
    if not messages and not opening_messages:
        raise Invalid("the run has no message", remedy="send a message, or the workflow's own input")
    if not dangling:
        return [*messages, *opening_messages], [*opening_messages]
    opened = await storage.current()
    artefact = Artefact(opened, scope.kind, scope.artefact, scope.owner)
    complete: list[AnyMessage] = []
    ended: dict[tuple[str, str], Outcome] = {}
    for index, message in enumerate(messages):
        complete.append(message)
        for call in dangling.get(index, ()):
            outcome = await planning.outcome_of_open_call(state, scope, str(call["id"]))
            if outcome is None:
                receipts = await artefact.thread_receipts(scope.thread, f"{message.id}/{call['id']}")
                outcome = (
                    Outcome(ok=True, output=receipts[-1])
                    if receipts
                    else abandoned_outcome(workflow.tools.get(call["name"]))
                )
            ended[str(message.id), str(call["id"])] = outcome
            complete.append(tool_message(str(call["id"]), call["name"], outcome.output))
    await close(opened, scope, ended)
    complete += opening_messages
    return complete, [RemoveMessage(id=REMOVE_ALL_MESSAGES), *complete]


def _needs_opening(messages: Sequence[AnyMessage], dangling: Mapping[int, Any], opening: str) -> bool:
    """Return True if the newest turn is over without a new message, or began with a different opening."""
    if not messages or isinstance(messages[-1], HumanMessage):
        return not messages
    if dangling or isinstance(messages[-1], AIMessage):
        return True
    # Between two rounds, perhaps of a failed run: the next run continues it, or brings its own opening.
    newest = next((one for one in reversed(messages) if isinstance(one, HumanMessage)), None)
    return newest is not None and str(newest.id).endswith(_OPENING_SUFFIX) and newest.text != opening


def _tool_choice(workflow: WorkflowSpec[Any], chosen: Context, rounds: int) -> Any:
    """Return `tool_choice` of this round: the chosen one first, then "auto", and "none" at the limit."""
    choice: Any = chosen.get("tool_choice", "auto")
    if rounds >= chosen.get("max_rounds", workflow.turn.max_rounds):
        # With the tools all the same: providers refuse a history with tool calls without tools.
        return "none"
    if rounds:
        return "auto"
    if isinstance(choice, str) and choice in {"auto", "required"}:
        return choice
    named = choice.get("function", {}).get("name") if isinstance(choice, dict) else None
    if named not in workflow.tools:
        raise Invalid(
            f"the tool choice {choice!r} is not a tool of this workflow",
            remedy=f"choose auto, required or one of {', '.join(workflow.tools)}",
        )
    return choice


def plan_of_calls(workflow: WorkflowSpec[Any], answer: AIMessage) -> Plan | None:
    """Return the plan in which every call of an answer is a step."""
    steps = [
        _step(workflow, call["id"], call["name"], params=call["args"], raw=None) for call in answer.tool_calls
    ]
    steps += [
        _step(workflow, call["id"], call["name"] or "", params={}, raw=call["args"] or "")
        for call in answer.invalid_tool_calls
    ]
    return Plan(id=str(answer.id), steps=with_dependencies(steps)) if steps else None


def _step(
    workflow: WorkflowSpec[Any], call_id: str | None, name: str, *, params: dict[str, Any], raw: str | None
) -> Step:
    tool = workflow.tools.get(name)
    step = Step(
        id=str(call_id),
        tool=name,
        display=tool.display if tool else name,
        params=params,
        dependencies=[],
        reads=sorted(tool.reads) if tool else [],
        writes=sorted(tool.writes) if tool else [],
    )
    return step if raw is None else {**step, "raw": raw}


def _last_answer(answer: AIMessage, scope: Scope, turn: Mapping[str, Any]) -> AIMessage:
    """Return the answer at the limit of rounds, without calls; log which ones the turn was refused."""
    failed = [result for result in turn.get("results", []) if result["status"] == "error"]
    # The words of an error may quote arguments, which do not belong into a log.
    for tool, kind in dict.fromkeys((result["tool"], result["output"].get("type")) for result in failed):
        _log.warning(
            "thread %s reached its limit of rounds; calls of %.80s failed: %s", scope.thread, tool, kind
        )
    return _without_calls(answer)


def _without_calls(answer: AIMessage) -> AIMessage:
    text = answer.text or "I have done as much as one turn allows. Tell me what to do next."
    return AIMessage(text, id=answer.id, response_metadata=answer.response_metadata)
