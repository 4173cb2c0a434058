"""Errors of runs: serialised into the run's record, and raised again for the caller who waits."""

import json
from collections.abc import Mapping
from typing import Any, Final

from callsheet.server.engine.json_values import dumps
from callsheet.state import errors
from callsheet.state.errors import Broken, CallsheetError, Unavailable

_KINDS: Final[Mapping[str, type[CallsheetError]]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, CallsheetError)
}


def error_message(error: Exception) -> str:
    """Return the message for a person, with its remedy."""
    if isinstance(error, CallsheetError):
        return errors.sentences(error.message, error.remedy)
    return str(error)


def serialize_error(error: Exception) -> dict[str, Any]:
    """Return `error` for a run's record: `{error, message, …}`."""
    record: dict[str, Any] = {"error": type(error).__name__, "message": error_message(error)}
    if not isinstance(error, CallsheetError):
        return record
    details = json.loads(dumps(error.details))
    record |= {"said": error.message, "remedy": error.remedy, "details": details}
    return record | ({"retryAfterS": error.retry_after_s} if isinstance(error, Unavailable) else {})


def deserialize_error(record: Mapping[str, Any]) -> CallsheetError:
    """Return the exception of a run's record or error event; `Broken` for no `CallsheetError`."""
    kind = _KINDS.get(str(record.get("error")))
    if kind is None:
        return Broken(f"the run failed: {record.get('error')}: {record.get('message')}")
    if "said" not in record:
        return kind(str(record.get("message")))
    error = kind(record["said"], remedy=record["remedy"], details=record["details"])
    if isinstance(error, Unavailable) and "retryAfterS" in record:
        error.retry_after_s = record["retryAfterS"]
    return error
