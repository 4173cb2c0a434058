"""Tasks of campaign search: the search, its filters, its campaigns, and the claims of the answer."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, cast

from callsheet.graphs import campaign_search
from callsheet.nodes.campaigns.planning import ANSWER, known_results
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.campaigns.answers import Statement, problems
from callsheet.state.campaigns.evidence import evidence_of
from callsheet.state.campaigns.reading import LooseFilters, active_filters, resolve_filters
from callsheet.state.campaigns.sample import sample_campaigns
from callsheet.state.campaigns.workflow import CampaignState
from evals import turns
from evals.session import EvalSession
from evals.tasks import load
from evals.turns import EvalTurn, lacks, unless

FIELDS: Final = ("base_filters",)
PLACES: Final = 10
"""Campaigns of a search by meaning that are checked."""
PRECISION: Final = 0.6
"""Least share of them that answer the question."""
_TALKS: Final = frozenset({"conversation", "hostile", "long", "language", "page", "offline", "use"})
"""Groups that are about conversations; all others measure the search."""
CampaignTurn = EvalTurn[None]


class CampaignSession(EvalSession[None]):
    """A conversation about the sample library."""

    workflow: ClassVar[WorkflowSpec[Any]] = campaign_search.WORKFLOW
    subject: ClassVar[str] = "campaign campaigns company channel offer library search filter email"

    async def prepare(self) -> Mapping[str, Any]:
        """Return the filters of the page, if the case has any."""
        return {**self.task.setup}

    async def edit(self, change: Any) -> Mapping[str, Any]:
        """Return other filters of the page, as the person sets them."""
        return {"base_filters": change}

    async def read_artefact(self) -> None:
        """Return nothing: questions change nothing."""


def _searches(turn: CampaignTurn) -> list[Mapping[str, Any]]:
    """Return the turn's searches with their complete results."""
    return [{**one} for one in turn.state.get("results", ()) if "count" in one["output"]]


def _last(turn: CampaignTurn) -> Mapping[str, Any]:
    output: Mapping[str, Any] = _searches(turn)[-1]["output"] if _searches(turn) else {}
    return output


def tool(expected: str, turn: CampaignTurn) -> str:
    """Check the search; for a question of meaning, a filter with the exact value is accepted, too."""
    used = [one["output"]["by"] for one in _searches(turn)]
    exact = (
        "meaning" in turn.expect and resolve(turn.expect["meaning"]).items() <= _applied_filters(turn).items()
    )
    return unless(expected in used or exact, f"the searches are {used or 'none'}")


def filters(expected: Mapping[str, Any], turn: CampaignTurn) -> str:
    """Check the filters of the last search, as the product resolves them."""
    exact = resolve(expected)
    if turn.expect.get("tool") == "offers":
        exact["has_offer"] = True
    by_meaning = resolve(turn.expect.get("meaning", {}))
    actual = _applied_filters(turn)
    return unless(actual in (exact, {**exact, **by_meaning}), f"the filters are {actual}")


def _applied_filters(turn: CampaignTurn) -> dict[str, Any]:
    return {**_last(turn).get("detectedFilters", {})}


def resolve(loose: Mapping[str, Any]) -> dict[str, Any]:
    """Return filters as the product reads them."""
    newest = max(campaign.capture_date for campaign in sample_campaigns())
    read = resolve_filters(LooseFilters.model_validate(loose), newest, datetime.now(UTC).date())
    return active_filters(read.filters)


def meaning(expected: Mapping[str, Any], turn: CampaignTurn) -> str:
    """Check that enough campaigns of the last search fit the meaning."""
    del expected
    actual = [one["id"] for one in _last(turn).get("campaigns", ())][:PLACES]
    hits = sum(name in turn.expect["ids"] for name in actual)
    return unless(actual and hits >= PRECISION * len(actual), f"{hits} of the first {len(actual)} fit")


def ids(expected: Sequence[str], turn: CampaignTurn) -> str:
    """Check all campaigns of the last search; `meaning` replaces this check."""
    if "meaning" in turn.expect:
        return ""
    actual = {one["id"] for one in _last(turn).get("campaigns", ())}
    count = _last(turn).get("count", 0)
    return unless(
        count == len(expected) and actual <= {*expected}, f"{count} campaigns, and {len(expected)} fit"
    )


def group_by(expected: str, turn: CampaignTurn) -> str:
    """Check the grouping."""
    actual = (_last(turn).get("aggregation") or {}).get("groupBy")
    return unless(actual == expected, f"grouped by {actual}")


def words(expected: Sequence[str], turn: CampaignTurn) -> str:
    """Check that the queries of the searches have each text."""
    queries = " ".join(str(call.args.get("query", "")) for call in turn.calls)
    return unless(not lacks(queries, expected), f"the queries are {queries!r}")


def proven(expected: bool, turn: CampaignTurn) -> str:
    """Check that the results of the conversation's searches prove every claim of the answer."""
    del expected
    answers = [call for call in turn.calls if call.name == ANSWER]
    if answers and not answers[-1].result.get("sent"):
        return "no answer that the campaigns support"
    raw = answers[-1].args["statements"] if answers else [{"text": turn.reply or "-"}]
    evidence = evidence_of(known_results(cast("CampaignState", turn.state)))
    statements = [Statement.model_validate(one) for one in raw]
    wrong = [problem for one in statements for problem in problems(one, evidence)]
    return "; ".join(wrong) or unless("were left out" not in turn.reply, "statements were left out")


def product(turn: CampaignTurn) -> str:
    """Return the answer."""
    return turn.reply


CHECKS: Final = turns.table(
    *(tool, filters, meaning, ids, group_by, words, proven),
)


def labelled_questions() -> list[dict[str, Any]]:
    """Return the questions of the search, with their expectations, for benches and tests."""
    tasks = load(campaign_search.WORKFLOW.name, FIELDS, CHECKS)
    return [
        {"id": task.id, "kind": task.group, "question": task.requests[-1].say, **task.requests[-1].expect}
        for task in tasks
        if task.group not in _TALKS
    ]
