"""Tasks of campaign search: the search, its filters, the campaigns it found, and what the answer claims."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, cast

from callsheet.graphs import campaign_search
from callsheet.nodes.campaigns.planning import ANSWER, known_results
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.campaigns.answers import Statement, evidence_of, problems
from callsheet.state.campaigns.reading import LooseFilters, active_filters, resolve_filters
from callsheet.state.campaigns.sample import sample_campaigns
from callsheet.state.campaigns.workflow import CampaignState
from evals import turns
from evals.session import TaskSession
from evals.tasks import load
from evals.turns import PlayedTurn, lacks, unless

FIELDS: Final = ("base_filters",)
PLACES: Final = 10
"""Campaigns of a search by meaning that are looked at."""
PRECISION: Final = 0.6
"""Least share of them that answer the question."""
_TALKS: Final = frozenset({"conversation", "hostile", "long", "language", "page", "offline"})
"""Groups that are about conversations; all others measure the search."""
CampaignTurn = PlayedTurn[None]


class CampaignSession(TaskSession[None]):
    """A conversation about the sample library."""

    workflow: ClassVar[WorkflowSpec[Any]] = campaign_search.WORKFLOW

    async def prepare(self) -> Mapping[str, Any]:
        """Give the filters of the page, if the case has any."""
        return {**self.task.given}

    async def look(self) -> None:
        """Return nothing: questions change nothing."""


def _searches(turn: CampaignTurn) -> list[Mapping[str, Any]]:
    """Return the turn's searches with their whole results."""
    return [{**one} for one in turn.state.get("results", ()) if "count" in one["output"]]


def _last(turn: CampaignTurn) -> Mapping[str, Any]:
    output: Mapping[str, Any] = _searches(turn)[-1]["output"] if _searches(turn) else {}
    return output


def tool(wanted: str, turn: CampaignTurn) -> str:
    """Compare the search; for a question of meaning its exact value will do, too."""
    used = [one["tool"] for one in _searches(turn)]
    exact = "meaning" in turn.expect and _resolved(turn.expect["meaning"]).items() <= _found(turn).items()
    return unless(wanted in used or exact, f"the searches are {used or 'none'}")


def filters(wanted: Mapping[str, Any], turn: CampaignTurn) -> str:
    """Compare the filters of the last search, as the product reads them."""
    exact = _resolved(wanted)
    if turn.expect.get("tool") == "search_offers":
        exact["has_offer"] = True
    meant = _resolved(turn.expect.get("meaning", {}))
    actual = _found(turn)
    return unless(actual in (exact, {**exact, **meant}), f"the filters are {actual}")


def _found(turn: CampaignTurn) -> dict[str, Any]:
    return {**_last(turn).get("detectedFilters", {})}


def _resolved(loose: Mapping[str, Any]) -> dict[str, Any]:
    newest = max(campaign.capture_date for campaign in sample_campaigns())
    read = resolve_filters(LooseFilters.model_validate(loose), newest, datetime.now(UTC).date())
    return active_filters(read.filters)


def meaning(wanted: Mapping[str, Any], turn: CampaignTurn) -> str:
    """Look that the campaigns of the last search mean this."""
    del wanted
    actual = [one["id"] for one in _last(turn).get("campaigns", ())][:PLACES]
    hits = sum(name in turn.expect["ids"] for name in actual)
    return unless(actual and hits >= PRECISION * len(actual), f"{hits} of the first {len(actual)} fit")


def ids(wanted: Sequence[str], turn: CampaignTurn) -> str:
    """Compare the campaigns of the last search: all of them, or for a meaning as `meaning` says."""
    if "meaning" in turn.expect:
        return ""
    actual = {one["id"] for one in _last(turn).get("campaigns", ())}
    count = _last(turn).get("count", 0)
    return unless(count == len(wanted) and actual <= {*wanted}, f"{count} campaigns, and {len(wanted)} fit")


def group_by(wanted: str, turn: CampaignTurn) -> str:
    """Compare the grouping."""
    actual = (_last(turn).get("aggregation") or {}).get("groupBy")
    return unless(actual == wanted, f"grouped by {actual}")


def words(wanted: Sequence[str], turn: CampaignTurn) -> str:
    """Find each text in the query of a search."""
    queries = " ".join(str(call.args.get("query", "")) for call in turn.calls)
    return unless(not lacks(queries, wanted), f"the queries are {queries!r}")


def proven(wanted: bool, turn: CampaignTurn) -> str:
    """Look every claim of the answer up in the results of the conversation's searches."""
    del wanted
    answers = [call for call in turn.calls if call.name == ANSWER]
    if answers and not answers[-1].result.get("sent"):
        return "no answer that the campaigns support"
    given = answers[-1].args["statements"] if answers else [{"text": turn.reply or "-"}]
    evidence = evidence_of(known_results(cast("CampaignState", turn.state)))
    statements = [Statement.model_validate(one) for one in given]
    wrong = [problem for one in statements for problem in problems(one, evidence)]
    return "; ".join(wrong) or unless("were left out" not in turn.reply, "statements were left out")


def product(turn: CampaignTurn) -> str:
    """Return the answer."""
    return turn.reply


CHECKS: Final = turns.table(
    *(tool, filters, meaning, ids, group_by, words, proven),
)


def labelled_questions() -> list[dict[str, Any]]:
    """Return the questions that have a tool, with their checks beside them, for benches and tests."""
    tasks = load(campaign_search.WORKFLOW.name, FIELDS, CHECKS)
    return [
        {"id": task.id, "kind": task.group, "question": task.requests[-1].say, **task.requests[-1].expect}
        for task in tasks
        if task.group not in _TALKS
    ]
