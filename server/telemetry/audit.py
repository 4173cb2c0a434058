"""The audit: who did what, appended to a journal in Redis that operators list and export."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from callsheet.server.telemetry.logs import context_fields
from callsheet.state.errors import CallsheetError
from callsheet.storage import journals
from callsheet.storage.redis import caller_keys
from callsheet.storage.redis.connection import Storage

_FROM_CONTEXT: Final = ("owner", "key_id", "request_id")
_log = logging.getLogger(__name__)


async def record_action(
    storage: Storage, action: str, target: str, details: Mapping[str, Any] | None = None, **actor: str
) -> None:
    """Append an action to the audit; `actor` replaces what is known of the request's caller.

    An action that storage cannot take, such as a deletion while Redis is full, is done all the same: its
    entry is in the log, as an error.
    """
    context = context_fields()
    caller = {name: context[name] for name in _FROM_CONTEXT if context.get(name)}
    entry = {"action": action, "target": target, "details": dict(details or {}), **caller, **actor}
    try:
        await journals.append(storage, caller_keys.AUDIT, entry, ttl_s=caller_keys.AUDIT_TTL_S)
    except CallsheetError as error:
        _log.error("the audit has no entry of this action: %s", error, extra=entry)


async def record_budgets(storage: Storage, budgets: str) -> None:
    """Record the operator's budgets, JSON, if they differ from those of the last start."""
    try:
        before = (await storage.redis.get(caller_keys.AUDITED_BUDGETS) or b"{}").decode()
        if before == budgets:
            return
        await storage.redis.set(caller_keys.AUDITED_BUDGETS, budgets)
    except CallsheetError as error:
        _log.warning("the audit does not know whether the budgets have changed: %s", error)
        return
    details = {"before": before, "now": budgets}
    await record_action(storage, "budgets", "CALLSHEET_BUDGETS", details, owner="operator")


async def trim(storage: Storage, most: int) -> None:
    """Delete the oldest entries of more than `most`."""
    await journals.trim(storage, caller_keys.AUDIT, most)
