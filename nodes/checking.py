"""Checks a plan before a person is asked about it: a call that cannot succeed goes back to the model."""

from collections.abc import Mapping, Sequence

from callsheet import storage
from callsheet.state.errors import CallsheetError, Forbidden, StorageDown
from callsheet.state.plan import Plan, Step, StepResult
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.tools.call import Call, Scope
from callsheet.tools.guard.arguments import repair_off_loop, validate_arguments
from callsheet.tools.guard.outcome import Outcome, failed_outcome, outcome_of_error
from callsheet.tools.registry import Tool


async def impossible_results(
    plan: Plan, steps: Sequence[Step], tools: Mapping[str, Tool], scope: Scope
) -> list[StepResult]:
    """Return results for all calls of a plan if one of `steps` cannot succeed; empty for a plan that may.

    Arguments, locks and targets are checked; the targets of a step only where no earlier step may make them.
    """
    artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
    locked = frozenset(await artefact.locks())
    refused: dict[str, Outcome] = {}
    for step in steps:
        try:
            await _check(step, tools[step["tool"]], scope, artefact, locked)
        except StorageDown:
            raise
        except CallsheetError as error:
            refused[step["id"]] = outcome_of_error(error)
    if not refused:
        return []
    return [
        StepResult(
            id=step["id"],
            plan=plan["id"],
            tool=step["tool"],
            status="error" if step["id"] in refused else "cancelled",
            output=refused.get(step["id"], _OTHER).output,
            duration_s=0.0,
        )
        for step in plan["steps"]
    ]


_OTHER = failed_outcome(
    "permission_denied",
    "Not carried out, because another call of this answer cannot succeed",
    suggestion="Call it again without the other, or with the other corrected",
    retryable=True,
)


async def _check(step: Step, tool: Tool, scope: Scope, artefact: Artefact, locked: frozenset[str]) -> None:
    """Raise what the call would raise, as far as that is known before it; nothing is changed."""
    given = await repair_off_loop(step["raw"]) if "raw" in step else step["params"]
    args, _ = validate_arguments(tool, given, scope.artefact)
    writes = frozenset(step["writes"])
    for name in sorted(writes & locked):
        raise Forbidden(
            f"{name!r} of this {scope.kind} is locked by its owner",
            remedy="leave it as it is, or ask the person to unlock it",
            details={"locked": name},
        )
    if tool.check and not step["dependencies"]:
        await tool.check(args, Call(scope, artefact, step["id"], writes, None))
