"""Read by the fuzzer, in its own environment: has some of what it makes up name things that are there.

Without that nearly every request would end at an id nobody has.
"""

import json
import os
import random
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import schemathesis
from schemathesis import Case, HookContext

KNOWN: Final[dict[str, list[str]]] = json.loads(os.environ["CALLSHEET_FUZZ_KNOWN"])
"""By the name of a parameter or a field of a body, values that stand for something.

What has a checkpoint or a run is the first of the threads.
"""
ALONE: Final = KNOWN.pop("run_id alone")
"""Runs that are found without a thread."""
_WITHOUT_END: Final = ("/threads/{thread_id}/stream", "/threads/{thread_id}/stream/events")
"""Of a thread that is there, they go on for ever."""
_CHANCES: Final = random.Random(1)

schemathesis.serializer.alias("application/x-ndjson", "text/plain")


@schemathesis.hook  # type: ignore[untyped-decorator]  # typed where it is installed
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    """Name what is there in most requests that are meant to fit; what is deleted is never one of those."""
    if isinstance(case.body, dict):
        # A run in the future keeps whoever waits for it.
        case.body.pop("after_seconds", None)
    fitting = case.meta is None or case.meta.generation.mode.is_positive
    if fitting and case.method.upper() != "DELETE" and case.path not in _WITHOUT_END:
        _name(case.path_parameters)
        _agree(case.path_parameters)
        _name(case.body)


@schemathesis.hook  # type: ignore[untyped-decorator]  # typed where it is installed
def filter_failure(context: HookContext, failure: Any, case: Case, response: Any) -> bool:
    """Keep a failure, but that a wrong query was taken that is right as it arrives.

    All of a query is text: nothing, one thing in the place of several, or an object's values look alike.
    """
    if failure.code != "ST201" or case.meta is None:
        return True
    wrong = {place.value for place, part in case.meta.components.items() if part.mode.is_negative}
    return not wrong <= {"query", "header"} or not _fits(case, response)


def _fits(case: Case, response: Any) -> bool:
    arrived = parse_qs(urlsplit(response.request.url).query, keep_blank_values=True)
    known = {one.name: one for one in case.operation.query}
    return all(
        name in known and any(known[name].is_valid(value) for value in _readings(values))
        for name, values in arrived.items()
    )


def _readings(values: list[str]) -> Iterator[Any]:
    yield from (values, values[-1])
    if values[-1].isdecimal() or values[-1] in {"true", "false"}:
        yield json.loads(values[-1])


def _name(holder: Any) -> None:
    if isinstance(holder, list):
        for one in holder:
            _name(one)
    elif isinstance(holder, dict):
        for name in holder.keys() & KNOWN.keys():
            if isinstance(holder[name], str) and _CHANCES.random() < 0.8:
                holder[name] = _CHANCES.choice(KNOWN[name])


def _agree(named: dict[str, str]) -> None:
    """Have ids in a path belong together: the fuzzer takes them for those that an earlier reply gave."""
    if named.get("run_id") in KNOWN["run_id"] and "thread_id" not in named:
        named["run_id"] = _CHANCES.choice(ALONE)
    elif any(named.get(name) in KNOWN[name] for name in ("run_id", "checkpoint_id")):
        named["thread_id"] = KNOWN["thread_id"][0]
