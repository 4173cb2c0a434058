"""Planner: calls the model and turns its tool calls into a plan."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime

from callsheet import storage
from callsheet.nodes.asking import GatedAnswer, Lack, ask_model, ask_through_gate, routing_request
from callsheet.nodes.budget import STOPPED, Declined, within_budget
from callsheet.nodes.compacting import lookups_of, pinned_text, view_of
from callsheet.nodes.lean import Offer, full_offer, offer_for, remember_unforcing
from callsheet.nodes.node import Node, run_context
from callsheet.nodes.nudging import TurnEnd
from callsheet.nodes.pausing import cancel_if_open
from callsheet.nodes.repeats import MAX_FAILURES, earlier_failures, repeats_success, step_failure
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.providers.routing import Route, RoutingRequest
from callsheet.state import conversation
from callsheet.state.compaction import ContextTokens
from callsheet.state.context import Context
from callsheet.state.errors import CallsheetError, Fenced, Invalid, RequestRejected, StorageDown
from callsheet.state.model_input import model_input
from callsheet.state.plan import Plan, Step, StepResult, fingerprint, with_dependencies
from callsheet.state.state_block import with_state_block
from callsheet.state.tokens import estimate_messages, estimate_tools
from callsheet.state.workflow import Workflow, add_usage, new_turn
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.plans import Executions
from callsheet.storage.spending import Account
from callsheet.tools.call import Scope
from callsheet.tools.guard.attempt import abandoned_outcome
from callsheet.tools.guard.outcome import Outcome, tool_message
from callsheet.tools.guard.record import close

_log = logging.getLogger(__name__)
_LIMIT: Final = "This turn ended at its limit of rounds. Its last results:"
_REJECTED: Final = "You rejected this step before, so it was not carried out."
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
        heads = await artefact.stream_heads(workflow.block_streams)
        return workflow.view.state_block(state, scope, heads)

    async def ask(
        self,
        routing: RoutingRequest,
        sent: Sequence[AnyMessage],
        *,
        tools: Sequence[dict[str, Any]],
        choice: Any,
        flat_examples: Sequence[AnyMessage] | None = None,
    ) -> tuple[Route, AIMessage]:
        """Return the model's answer with the route to it; checked words are not streamed."""
        return await ask_model(
            routing, sent, tools=tools, choice=choice, is_hidden=self.is_checked, flat_examples=flat_examples
        )

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

    def text_of_results(self, workflow: WorkflowSpec[Any], state: Any) -> str:
        """Return an answer made by code from the results of the turn's last round."""
        results: Sequence[StepResult] = state.get("results", ())
        last = [one for one in results if one["plan"] == results[-1]["plan"]]
        tools = workflow.allowed_tools(state)
        names = {name: tool.display for name, tool in tools.items()}
        shown = [f"{names.get(one['tool'], one['tool'])}: {_line(one)}" for one in last]
        return "\n".join([_LIMIT, *shown])

    async def outcome_of_open_call(self, state: Any, scope: Scope, call_id: str) -> Outcome | None:
        """Cancel the execution that an earlier run left open; None looks for the receipt of its call."""
        del call_id
        if plan := state.get("plan"):
            executions = Executions(await storage.current(), scope.kind, scope.artefact, scope.owner)
            await cancel_if_open(executions, plan["id"])
        return None


def _line(result: StepResult) -> str:
    """Return a result in one line."""
    output = result["output"]
    if changes := output.get("changes"):
        return "; ".join(map(str, changes))
    for name in ("error", "message", "versionId", "summary"):
        if output.get(name):
            return str(output[name])
    return f"{output['count']} found" if "count" in output else result["status"]


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
        rounds, rejected = turn.get("rounds", 0), turn.get("rejected", [])
        shown, prepared = await own.prepare(state, scope, history)
        account = Account(scope.owner, scope.thread, conversation.turn_id(history))
        choice = _tool_choice(workflow, run_context(runtime), rounds)
        nudges = choice != "none" and not rejected and not turn.get("nudged")
        end = partial(TurnEnd, workflow, state, history, turn.get("created", [])) if nudges else None
        request = _ModelRequest(workflow, own, state, scope, history, shown, choice, end)
        ask = partial(request.answer, routing_request(run_context(runtime), scope))
        try:
            answered = await _round_answer(account, ask, state, fresh=fresh, is_last=choice == "none")
        except Declined:
            return _end_turn([*repaired, AIMessage(STOPPED)], account.turn)
        answer = answered.gated.message if answered else AIMessage("")
        if choice == "none":
            answer = _last_answer(answer, own.text_of_results(workflow, state), scope, turn)
        planned = await own.plan(workflow, state, scope, answer)
        answer, planned = _without_hopeless(answer, planned, rejected, history)
        messages = [*_withdrawals(own, answered), *repaired, *_answer_messages(answer, planned)]
        return {
            **(_turn_start(state) if fresh else {}),
            **_round_update(planned, messages, rounds + 1, rejected),
            **(_model_update(answered) if answered else {}),
            **({"truncated": True} if choice == "none" else {}),
            **prepared,
            **planned.state,
        }

    return planner


class _Answered(NamedTuple):
    """A round's answer, and the tokens of its request, estimated."""

    gated: GatedAnswer
    estimate: int


async def _round_answer(
    account: Account, ask: Callable[[], Awaitable[_Answered]], state: Workflow, *, fresh: bool, is_last: bool
) -> _Answered | None:
    """Return the round's answer; None where the last round's fails, which needs none."""
    try:
        return await within_budget(account, ask, state.get("stopped"), begins=fresh)
    except (StorageDown, Fenced):
        raise
    except CallsheetError as error:
        if not is_last:
            raise
        _log.warning("the closing answer at the limit of rounds failed: %s", type(error).__name__)
        return None


def _answer_messages(answer: AIMessage, planned: Planned) -> list[AnyMessage]:
    """Return an answer with the messages behind it, without it where one of them takes its place.

    LangGraph streams what a node returns, before the conversation keeps the last message of an id.
    """
    is_replaced = any(one.id == answer.id for one in planned.messages)
    return [*planned.messages] if is_replaced else [answer, *planned.messages]


def _withdrawals(planning: Planning, answered: _Answered | None) -> list[BaseMessage]:
    """Return what tells readers that the words of other answers of the round were taken back.

    LangGraph removes a message only where there is one. Hidden words were not streamed.
    """
    names = answered.gated.withdrawn if answered and not planning.is_checked else ()
    return [each for name in names for each in (AIMessage("", id=name), RemoveMessage(id=name))]


def _round_update(
    planned: Planned, messages: Sequence[BaseMessage], rounds: int, rejected: Sequence[str]
) -> dict[str, Any]:
    """Return the keys of the state that every round sets."""
    plan = planned.plan
    return {"messages": messages, "plan": plan, "decided": False, "rounds": rounds, "rejected": rejected}


def _turn_start(state: Workflow) -> dict[str, Any]:
    """Return the keys of the state that begin anew with a person's message."""
    return {**new_turn(), **({"paused": None} if state.get("paused") else {})}


def _without_rejected(
    answer: AIMessage, planned: Planned, rejected: Sequence[str]
) -> tuple[AIMessage, Planned]:
    """Return an answer with its plan; without both if a step is one that the person rejected in this turn."""
    steps = planned.plan["steps"] if planned.plan else ()
    again = any(fingerprint(step) in rejected for step in steps)
    return (_without_calls(answer, answer.text or _REJECTED), Planned()) if again else (answer, planned)


def _without_hopeless(
    answer: AIMessage, planned: Planned, rejected: Sequence[str], history: Sequence[AnyMessage]
) -> tuple[AIMessage, Planned]:
    """Return an answer with its plan; without it if a step was rejected, or has failed twice, before."""
    answer, planned = _without_rejected(answer, planned, rejected)
    failures = earlier_failures(history)
    for step in planned.plan["steps"] if planned.plan else ():
        failure = step_failure(step, failures)
        if failure and failure.times >= MAX_FAILURES:
            reason = f"I stopped, because the same step failed again and again: {failure.cause}."
            return _without_calls(answer, answer.text.strip() or reason), Planned(state=planned.state)
    return answer, planned


@dataclass(frozen=True)
class _ModelRequest:
    """A round's question to the model."""

    workflow: WorkflowSpec[Any]
    planning: Planning
    state: Workflow
    scope: Scope
    history: Sequence[AnyMessage]
    shown: Sequence[AnyMessage]
    """The history as the model is sent it."""
    choice: Any
    end: Callable[[Sequence[AnyMessage]], TurnEnd] | None
    """Returns the turn that an answer to this input would end; None where it may end."""

    async def answer(self, routing: RoutingRequest) -> _Answered:
        """Return the answer in calls of the workflow's tools.

        A model that is offered few tools and wants more is asked again with all.
        """
        if isinstance(self.choice, dict):
            # A lean offer need not have the tool that the caller names.
            return await self._ask(full_offer(self.workflow), routing)
        offer = await offer_for(self.workflow, self.state, self.scope, routing, self.history)
        gated, estimate = await self._ask(offer, routing)
        message = offer.read(gated.message)
        if message is not None:
            if offer.lean and repeats_success(message, self.history):
                # A small model does the same again where nothing is left to do.
                done = self.planning.text_of_results(self.workflow, self.state).removeprefix(_LIMIT)
                message = _without_calls(message, done.strip())
            return _Answered(replace(gated, message=message), estimate)
        again, estimate = await self._ask(full_offer(self.workflow), routing)
        withdrawn = [*gated.withdrawn, *again.withdrawn]
        if gated.message.id and gated.message.id != again.message.id:
            withdrawn.append(gated.message.id)
        usage = add_usage(gated.usage, again.usage)
        return _Answered(replace(again, usage=usage, withdrawn=withdrawn), estimate)

    async def _ask(self, offer: Offer, routing: RoutingRequest) -> _Answered:
        sent = await self._sent(offer)
        ask = partial(
            self.planning.ask,
            routing,
            tools=offer.definitions,
            choice=offer.tool_choice(self.choice),
            flat_examples=offer.examples if offer.lean and self.choice == "auto" else None,
        )
        missing = partial(_missing_of, offer, self.end(sent)) if self.end else None
        estimate = estimate_messages(sent) + estimate_tools(offer.definitions)
        try:
            return _Answered(await ask_through_gate(ask, sent, self.history, offer.names, missing), estimate)
        except RequestRejected:
            if offer.tool_choice(self.choice) == self.choice:
                raise
            # Some servers cannot be made to call a tool.
            ask = partial(self.planning.ask, routing, tools=offer.definitions, choice=self.choice)
            gated = await ask_through_gate(ask, sent, self.history, offer.names, missing)
            remember_unforcing(routing)
            return _Answered(gated, estimate)

    async def _sent(self, offer: Offer) -> list[AnyMessage]:
        """Return the model's input."""
        sent = model_input(
            offer.prompt,
            self.shown,
            view_of(self.state),
            pinned=pinned_text(self.workflow, self.state, self.shown),
            lookups=lookups_of(self.workflow),
        )
        block = offer.state_block or await self.planning.state_block(self.workflow, self.state, self.scope)
        return with_state_block(sent, block)


def _missing_of(offer: Offer, end: TurnEnd, route: Route, answer: AIMessage) -> Lack:
    """Return what an answer lacks; one that wants more tools lacks nothing yet."""
    message = offer.read(answer)
    return Lack(end.missing(route, message), message.text) if message else Lack()


def _model_update(answered: _Answered) -> dict[str, Any]:
    """Return the provider with its reason, and the tokens as the vendor counts them, or else estimated.

    The vendor counts what was sent; a conversation that had to be shortened counts whole.
    """
    gated, estimate = answered
    counted = gated.message.usage_metadata
    complete = counted is not None and estimate <= gated.route.input_budget
    used = counted["total_tokens"] if counted and complete else estimate + estimate_messages([gated.message])
    return {
        "usage": gated.usage,
        "provider": gated.route.provider,
        "provider_reason": gated.route.reason,
        "context_tokens": ContextTokens(used=used, budget=gated.route.input_budget),
        **({"nudged": True} if gated.nudged else {}),
    }


def _end_turn(messages: Sequence[BaseMessage], turn: str) -> dict[str, Any]:
    return {"messages": messages, "plan": None, "decided": False, "stopped": turn}


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


def _last_answer(answer: AIMessage, otherwise: str, scope: Scope, turn: Mapping[str, Any]) -> AIMessage:
    """Return the answer at the limit of rounds: the model's, or `otherwise` where it is empty or calls again.

    Logs which calls the turn was refused.
    """
    failed = [result for result in turn.get("results", []) if result["status"] == "error"]
    # The words of an error may quote arguments, which do not belong into a log.
    for tool, kind in dict.fromkeys((result["tool"], result["output"].get("type")) for result in failed):
        _log.warning(
            "thread %s reached its limit of rounds; calls of %.80s failed: %s", scope.thread, tool, kind
        )
    text = "" if conversation.calls_of(answer) else answer.text.strip()
    return _without_calls(answer, text or otherwise)


def _without_calls(answer: AIMessage, text: str) -> AIMessage:
    return AIMessage(text, id=answer.id, response_metadata=answer.response_metadata)
