"""Asks a person to approve destructive steps, or every step if the caller wants that.

Nothing with an effect happens before the question. A rejection reaches the planner with its reason, and
a rejected step is not proposed again in the same turn. Consent is stored by call, and the executor requires
it: a client that sets the plan, or the next node, approves nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from callsheet import storage
from callsheet.nodes.checking import impossible_results
from callsheet.nodes.node import Node, run_context
from callsheet.nodes.pausing import is_under_way
from callsheet.nodes.question import refusal_text
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.approvals import PLAN_SCHEMA, approval_sentence, plan_decisions, step_words
from callsheet.state.context import Context
from callsheet.state.errors import Invalid, InvalidArguments, Refused
from callsheet.state.plan import (
    Plan,
    Step,
    StepResult,
    call_digest,
    fingerprint,
    with_params,
    without_left_out,
)
from callsheet.state.workflow import Workflow
from callsheet.storage import consents
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.tools.call import Scope
from callsheet.tools.guard.arguments import (
    problems_in_words,
    read_arguments,
    repair_off_loop,
    validate_arguments,
)
from callsheet.tools.guard.outcome import Outcome, failed_outcome
from callsheet.tools.registry import Tool, model_schema


def approval_node(workflow: WorkflowSpec[Any], *, asks_decided: bool = True) -> Node[Workflow]:
    """Return the node that asks for approval of a plan; `asks_decided`: also of one that a person decided."""

    async def approval(state: Workflow, *, runtime: Runtime[Context]) -> dict[str, Any]:
        plan = state.get("plan")
        scope = workflow.scope(state, runtime)
        if plan is None or await is_under_way(workflow, state, plan, scope):
            return {}
        if state.get("decided") and not asks_decided:
            return {}
        every = bool(run_context(runtime).get("approve_plan"))
        steps = await _steps_in_question(workflow, state, runtime, every=every)
        if not steps:
            return {}
        tools = workflow.allowed_tools(state)
        if impossible := await _impossible(plan, steps, tools, scope):
            return {
                "messages": workflow.turn.answer_messages(plan, impossible),
                "plan": None,
                "results": [*state.get("results", []), *impossible],
            }
        readable = [await _as_executed(step, tools[step["tool"]]) for step in steps]
        about = await _describe_steps(workflow, state, runtime, readable)
        shown = approval_request(readable, about, tools) | {"plan_steps": len(plan["steps"])}
        await _record_question(scope, steps)
        decided = list(zip(steps, _ask(shown, tools, scope.artefact), strict=True))
        refused = [(step, choice) for step, choice in decided if choice["type"] == "reject"]
        if refused:
            return {
                "messages": workflow.turn.answer_messages(plan, _rejections(plan, refused)),
                "plan": None,
                "rejected": [
                    *state.get("rejected", []),
                    *(fingerprint(step) for step, choice in refused if not choice.get("words")),
                ],
            }
        return {"plan": await _approved_plan(workflow, plan, decided, scope)}

    return approval


async def _impossible(
    plan: Plan, steps: Sequence[Step], tools: Mapping[str, Tool], scope: Scope
) -> list[StepResult]:
    """Return results for a plan that cannot succeed; none once a person was asked, whose answer counts."""
    if await consents.recorded_question(await storage.current(), scope.thread, scope.task):
        return []
    return await impossible_results(plan, steps, tools, scope)


async def _approved_plan(
    workflow: WorkflowSpec[Any], plan: Plan, decided: Sequence[tuple[Step, Mapping[str, Any]]], scope: Scope
) -> Plan:
    """Return the plan with the person's edits and without what they left out; store their consent."""
    left_out = [step["id"] for step, choice in decided if choice["type"] == "skip"]
    edits = {step["id"]: _apply_edit(step, choice) for step, choice in decided}
    wanted = [step for step in edits.values() if step["id"] not in left_out]
    approved = [call_digest(plan["id"], step) for step in wanted]
    await consents.grant(await storage.current(), scope.thread, approved)
    edited = [edits.get(step["id"], step) for step in plan["steps"]]
    return {**plan, "steps": without_left_out(edited, left_out, workflow.turn.plan_rules.creators)}


def needs_approval(workflow: WorkflowSpec[Any], state: Workflow, context: Context) -> bool:
    """Return True if a person must approve a step of the plan."""
    every = bool(context.get("approve_plan"))
    return bool(_steps_to_approve(workflow.allowed_tools(state), state.get("plan"), every=every))


def approval_request(
    steps: Sequence[Step], about: Sequence[str], tools: Mapping[str, Tool]
) -> dict[str, Any]:
    """Return the interrupt's value, in the shape that stock agent interfaces render.

    `about` describes the target of each step; empty for none. An edit has the arguments of `args_schema`.
    """
    described = [step_words(step["display"], name) for step, name in zip(steps, about, strict=True)]
    return {
        "message": approval_sentence(described),
        "steps": [step["id"] for step in steps],
        "action_requests": [
            {"name": step["tool"], "args": step["params"], "description": description}
            for step, description in zip(steps, described, strict=True)
        ],
        "review_configs": [
            {
                "action_name": name,
                "allowed_decisions": ["approve", "edit", "reject"],
                "args_schema": _edit_schema(tools[name]),
            }
            for name in dict.fromkeys(step["tool"] for step in steps)
        ],
        "response_schema": PLAN_SCHEMA,
        "examples": [
            {"decisions": [{"type": "approve"} for _ in steps]},
            {"decisions": [{"type": "reject", "message": "leave it as it is"}]},
        ],
        "problem": "",
    }


def _edit_schema(tool: Tool) -> dict[str, Any]:
    """Return the schema of a tool's arguments for a person, who need not name the artefact."""
    schema = model_schema(tool.schema)
    properties = dict(schema.get("properties", {}))
    if tool.subject in properties:
        properties[tool.subject] = {**properties[tool.subject], "readOnly": True}
    required = [name for name in schema.get("required", ()) if name != tool.subject]
    return {**schema, "properties": properties, "required": required}


async def _steps_in_question(
    workflow: WorkflowSpec[Any], state: Workflow, runtime: Runtime[Context], *, every: bool
) -> list[Step]:
    """Return the steps to approve.

    The run that brings the answer need not want every step approved as the one that asked did.
    """
    plan, tools = state.get("plan"), workflow.allowed_tools(state)
    steps = _steps_to_approve(tools, plan, every=every)
    effects = _steps_to_approve(tools, plan, every=True)
    if plan is None or len(steps) == len(effects):
        return steps
    scope = workflow.scope(state, runtime)
    recorded = await consents.recorded_question(await storage.current(), scope.thread, scope.task)
    return effects if recorded == _digests(scope, effects) else steps


def _digests(scope: Scope, steps: Sequence[Step]) -> str:
    return " ".join(call_digest(scope.plan, step) for step in steps)


async def _record_question(scope: Scope, steps: Sequence[Step]) -> None:
    """Record the calls that the person is asked about; raises `Refused` if they changed with the answer."""
    calls = _digests(scope, steps)
    if not await consents.ask(await storage.current(), scope.thread, scope.task, calls):
        raise Refused(
            "the plan has changed since the person was asked",
            remedy="answer the question without an update of the plan",
        )


async def _describe_steps(
    workflow: WorkflowSpec[Any], state: Workflow, runtime: Runtime[Context], steps: Sequence[Step]
) -> list[str]:
    """Return the target of each step, as the artefact is now."""
    scope = workflow.scope(state, runtime)
    artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
    heads = await artefact.stream_heads(await workflow.artefact.streams_of(artefact))
    newest = {stream: head.newest for stream, head in heads.items()}
    return [workflow.turn.describe_step(state, step, newest) for step in steps]


async def _as_executed(step: Step, tool: Tool) -> Step:
    """Return a step with the arguments that its tool will get: repaired, and without unknown ones.

    A person who sees an argument that the tool drops would approve a wider call than the one shown.
    """
    try:
        given = await repair_off_loop(step["raw"]) if "raw" in step else step["params"]
    except Invalid:
        return step
    return {**step, "params": read_arguments(tool.schema, given)[0]}


def _steps_to_approve(tools: Mapping[str, Tool], plan: Plan | None, *, every: bool) -> list[Step]:
    """Return the steps to approve: the destructive ones, or every one with an effect."""
    known = [(step, tools.get(step["tool"])) for step in (plan["steps"] if plan else ())]
    return [step for step, tool in known if tool and (tool.is_destructive or (every and step["writes"]))]


def _ask(shown: Mapping[str, Any], tools: Mapping[str, Tool], artefact: str) -> list[Mapping[str, Any]]:
    """Return the person's decision about each step; after an invalid answer, ask again with the reason.

    An edit is invalid if its arguments do not fit the tool.

    LangGraph repeats earlier answers in order when the node runs again, so they must lead to the same
    questions.
    """
    question = shown
    while True:
        answer = interrupt(question)
        try:
            return _decisions(answer, shown, tools, artefact)
        except Invalid as error:
            question = _with_problem(shown, refusal_text(error))


def _decisions(
    answer: Any, shown: Mapping[str, Any], tools: Mapping[str, Tool], artefact: str
) -> list[Mapping[str, Any]]:
    """Return the decision about each action; raise `Invalid` for an answer that is none."""
    decisions = plan_decisions(answer, shown)
    for decision, action in zip(decisions, shown["action_requests"], strict=True):
        if decision["type"] == "edit":
            _check_edit(tools[action["name"]], decision["args"], artefact)
    return decisions


def _check_edit(tool: Tool, args: Mapping[str, Any], artefact: str) -> None:
    """Raise `Invalid`, in words for a person, for edited arguments that do not fit the tool."""
    try:
        validate_arguments(tool, args, artefact)
    except InvalidArguments as error:
        raise Invalid(f"“{tool.display}” cannot be done as edited. {problems_in_words(error)}.") from error


def _with_problem(shown: Mapping[str, Any], problem: str) -> dict[str, Any]:
    """Return the interrupt's value with the reason why the last answer was refused."""
    first, *others = shown["action_requests"]
    first = {**first, "description": f"{problem}\n\n{first['description']}"}
    return {**shown, "action_requests": [first, *others], "problem": problem}


def _apply_edit(step: Step, choice: Mapping[str, Any]) -> Step:
    """Return the step with the edited arguments, which replace those that the model wrote as text, too."""
    if choice["type"] != "edit":
        return step
    return with_params(step, choice["args"])


def _rejections(plan: Plan, refused: Sequence[tuple[Step, Mapping[str, Any]]]) -> list[StepResult]:
    choices = {step["id"]: choice for step, choice in refused}
    return [
        StepResult(
            id=step["id"],
            plan=plan["id"],
            tool=step["tool"],
            status="cancelled",
            output=_rejection(choices.get(step["id"])).output,
            duration_s=0.0,
        )
        for step in plan["steps"]
    ]


def _rejection(choice: Mapping[str, Any] | None) -> Outcome:
    """Return the outcome of a rejected step, or of another step of its plan (`choice` None).

    Words that are no plain yes or no are for the model to read: it may call the tool again, and the person is
    asked again.
    """
    if choice is None:
        return failed_outcome(
            "permission_denied",
            "Not carried out, because a person rejected another step of the plan",
            suggestion="Call it again if it is still wanted without the other",
            retryable=True,
        )
    if words := choice.get("words"):
        return failed_outcome(
            "permission_denied",
            f"Not carried out yet. A person was asked for approval and answered: {words}",
            suggestion="If they agree, call it again with what they want changed; they are asked again",
            retryable=True,
        )
    return failed_outcome(
        "permission_denied",
        f"A person rejected this: {choice.get('message') or 'no reason given'}",
        suggestion="Do as they say, or ask what they want instead",
        rejected=True,
    )
