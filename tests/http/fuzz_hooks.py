"""Hooks of the fuzzer, in its own environment: put existing ids into many of its requests.

Without them nearly every request would be 404.
"""

import json
import os
import random
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import schemathesis
from schemathesis import Case, HookContext

EXISTING: Final[dict[str, list[str]]] = json.loads(os.environ["CALLSHEET_FUZZ_EXISTING"])
"""Existing values, by the name of a parameter or body field.

The first thread is the one that has checkpoints and runs.
"""
THREADLESS_RUN_IDS: Final = EXISTING.pop("run_id alone")
"""Runs that were created without a thread."""
_ENDLESS: Final = (
    "/threads/{thread_id}/stream",
    "/threads/{thread_id}/stream/events",
    "/api/questions/events",
)
"""Streams that never end if their thread exists."""
_CHANCES: Final = random.Random(1)

schemathesis.serializer.alias("application/x-ndjson", "text/plain")


@schemathesis.hook  # type: ignore[untyped-decorator]  # typed where it is installed
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    """Put existing ids into most valid requests; never into one that deletes."""
    if isinstance(case.body, dict):
        # A request that waits for a delayed run would time out.
        case.body.pop("after_seconds", None)
    is_valid = case.meta is None or case.meta.generation.mode.is_positive
    if is_valid and case.method.upper() != "DELETE" and case.path not in _ENDLESS:
        _use_existing_ids(case.path_parameters)
        _match_ids(case.path_parameters)
        _use_existing_ids(case.body)


@schemathesis.hook  # type: ignore[untyped-decorator]  # typed where it is installed
def filter_failure(context: HookContext, failure: Any, case: Case, response: Any) -> bool:
    """Keep a failure unless it accepts an invalid query that is valid once it is encoded.

    A query is text: null, one item instead of a list, and the values of an object look alike.
    """
    if failure.code != "ST201" or case.meta is None:
        return True
    negative = {location.value for location, part in case.meta.components.items() if part.mode.is_negative}
    return not negative <= {"query", "header"} or not _is_valid_as_sent(case, response)


def _is_valid_as_sent(case: Case, response: Any) -> bool:
    query = parse_qs(urlsplit(response.request.url).query, keep_blank_values=True)
    parameters = {parameter.name: parameter for parameter in case.operation.query}
    return all(
        name in parameters and any(parameters[name].is_valid(value) for value in _decodings(values))
        for name, values in query.items()
    )


def _decodings(values: list[str]) -> Iterator[Any]:
    yield from (values, values[-1])
    if values[-1].isdecimal() or values[-1] in {"true", "false"}:
        yield json.loads(values[-1])


def _use_existing_ids(holder: Any) -> None:
    if isinstance(holder, list):
        for item in holder:
            _use_existing_ids(item)
    elif isinstance(holder, dict):
        for name in holder.keys() & EXISTING.keys():
            if isinstance(holder[name], str) and _CHANCES.random() < 0.8:
                holder[name] = _CHANCES.choice(EXISTING[name])


def _match_ids(parameters: dict[str, str]) -> None:
    """Make the ids in a path belong together, as if an earlier reply had named them."""
    if parameters.get("run_id") in EXISTING["run_id"] and "thread_id" not in parameters:
        parameters["run_id"] = _CHANCES.choice(THREADLESS_RUN_IDS)
    elif any(parameters.get(name) in EXISTING[name] for name in ("run_id", "checkpoint_id")):
        parameters["thread_id"] = EXISTING["thread_id"][0]
