"""Routes of the use of models: calls, tokens and cost."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import Query, Request
from typing_extensions import TypedDict

from callsheet.server.artefacts.schemas import ModelUse
from callsheet.server.artefacts.views import use_view
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, with_policy
from callsheet.server.http.requests import api_router
from callsheet.state.errors import Invalid
from callsheet.storage import spending
from callsheet.storage.redis.connection import Storage
from callsheet.storage.spending import Account, ModelUsage

MAX_DAYS: Final = 366
_DEFAULT_DAYS: Final = 30

router = api_router("/api", "usage")


class UsageRow(ModelUse):
    """Use of one model on one day, or in one conversation."""

    day: str | None
    """ISO 8601, UTC; null for a conversation."""
    model: str


class UsageReport(TypedDict):
    """Use of models by one owner. The offline model is free and not counted."""

    owner: str
    conversationId: str | None
    rows: list[UsageRow]
    total: ModelUse


@router.get("/usage", responses=documented_responses(400, 403, 422, 500, 503, 504, reply=UsageReport))
@with_policy(API_READ)
async def show_usage(
    request: Request,
    conversation: Annotated[
        str | None, Query(alias="conversationId", max_length=255, description="Only this conversation")
    ] = None,
    model: Annotated[str | None, Query(max_length=200, description="Only this model")] = None,
    first: Annotated[
        date | None, Query(alias="from", description="First day; 30 days before the last by default")
    ] = None,
    last: Annotated[date | None, Query(alias="to", description="Last day; today by default")] = None,
) -> dict[str, Any]:
    """Show the use of models by day and model, or of one conversation by model."""
    storage, owner = app_context(request).storage, current_owner(request)
    by_day = (
        await _by_day(storage, owner, first, last)
        if conversation is None
        else {None: await _of_thread(storage, owner, conversation)}
    )
    rows = [
        (day, name, used)
        for day, models in by_day.items()
        for name, used in models.items()
        if model in {None, name}
    ]
    return {
        "owner": owner,
        "conversationId": conversation,
        "rows": [
            {"day": day and day.isoformat(), "model": name} | use_view(used) for day, name, used in rows
        ],
        "total": use_view(sum((used for _, _, used in rows), ModelUsage())),
    }


async def _by_day(
    storage: Storage, owner: str, first: date | None, last: date | None
) -> Mapping[date | None, Mapping[str, ModelUsage]]:
    days = await spending.read_days(storage, owner, *period(first, last))
    return dict(days.items())


def period(first: date | None, last: date | None) -> tuple[date, date]:
    """Return the first and the last day of a report, by default the last 30; raises `Invalid`."""
    last = last or datetime.now(UTC).date()
    first = first or last - timedelta(days=_DEFAULT_DAYS - 1)
    if not 0 <= (last - first).days < MAX_DAYS:
        raise Invalid(
            f"from {first} to {last} is not a period of 1 to {MAX_DAYS} days",
            remedy="choose a shorter period",
        )
    return first, last


async def _of_thread(storage: Storage, owner: str, thread: str) -> Mapping[str, ModelUsage]:
    return await spending.read_usage(storage, Account(owner, thread, ""), "thread")
