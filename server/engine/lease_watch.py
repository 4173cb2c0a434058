"""Stops attempts that lost their thread while this process stood still, before their code goes on.

A timer's callback runs before the tasks that the same wake-up continues. So it finds the leases that expired
meanwhile, renews them in one blocking round trip, and cancels every task of an attempt that is fenced.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from callsheet.server.engine.execution import RunExecution
from callsheet.state.errors import CallsheetError
from callsheet.storage.runs.leases import create_task, renew_blocking
from callsheet.storage.runs.runs import Runs

_CHECKS_PER_LEASE: Final = 20
_log = logging.getLogger(__name__)


@contextmanager
def watch_leases(runs: Runs, executions: Collection[RunExecution]) -> Iterator[None]:
    """Watch the leases of these executions on the running event loop."""
    loop = asyncio.get_running_loop()
    factory = loop.get_task_factory()
    loop.set_task_factory(partial(create_task, factory or asyncio.Task))
    timer = loop.call_later(0, lambda: None)

    def check() -> None:
        nonlocal timer
        timer = loop.call_later(runs.lease_s / _CHECKS_PER_LEASE, check)
        if expired := [each for each in executions if each.is_overdue]:
            _stop_fenced(runs, expired)

    check()
    try:
        yield
    finally:
        timer.cancel()
        loop.set_task_factory(factory)


def _stop_fenced(runs: Runs, executions: Collection[RunExecution]) -> None:
    try:
        lost = renew_blocking(runs, [each.lease for each in executions])
    except CallsheetError as error:
        _log.warning("%d runs stop, because their leases cannot be renewed: %s", len(executions), error)
        lost = [each.lease for each in executions]
    for each in executions:
        if each.lease in lost:
            each.stop_fenced()
