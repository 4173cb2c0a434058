"""Several runs by one request: all of them looked at before the first is begun."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from server.parts import Parts
from server.wire.run_bodies import BatchBody
from server.wire.starting import Ready, Started, begin, ready, ready_alone
from state.errors import Conflict, Invalid, Refused, TooLarge


async def started(here: Parts, owner: str, bodies: Sequence[BatchBody]) -> list[Started]:
    """Record the runs in their order and have them carried out, or none of them.

    Raises `Invalid` naming the first that cannot be begun, and `TooLarge` for more than one request may have.
    What only shows as a run is recorded (a thread that is to be left alone, storage that goes away) ends the
    rest, and is raised as it is.
    """
    if len(bodies) > (most := here.settings.max_batch_runs):
        raise TooLarge(
            f"a batch of {len(bodies)} runs is over the limit of {most}",
            remedy="send fewer at a time, or raise CALLSHEET_MAX_BATCH_RUNS",
        )
    return [await begin(here, one) for one in await _looked_at(here, owner, bodies)]


async def _looked_at(here: Parts, owner: str, bodies: Sequence[BatchBody]) -> list[Ready]:
    asked = (
        ready(here, owner, each.thread_id, each) if each.thread_id else ready_alone(here, owner, each)
        for each in bodies
    )
    found: list[Ready] = []
    graphs: dict[str, str] = {}
    answered: set[tuple[str, str]] = set()
    for number, one in enumerate(await asyncio.gather(*asked, return_exceptions=True), 1):
        try:
            if isinstance(one, BaseException):
                raise one
            _fits(one, graphs, answered)
        except Refused as error:
            raise Invalid(
                f"run {number} of {len(bodies)}: {error.message}",
                remedy="; ".join(part for part in (error.remedy, "none of them was started") if part),
            ) from error
        graphs[one.thread] = one.asked.graph
        answered |= _answers(one)
        found.append(one)
    return found


def _fits(one: Ready, graphs: Mapping[str, str], answered: Collection[tuple[str, str]]) -> None:
    """Raise `Conflict` for what an earlier run of the batch makes impossible."""
    graph = graphs.get(one.thread, one.asked.graph)
    if graph != one.asked.graph:
        raise Conflict(f"an earlier one runs {graph!r} on thread {one.thread!r}")
    if any(answer in answered for answer in _answers(one)):
        raise Conflict(f"an earlier one answers the question of thread {one.thread!r}")


def _answers(one: Ready) -> set[tuple[str, str]]:
    return {(one.thread, question) for question in one.asked.questions}
