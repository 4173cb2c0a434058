"""The operator's word on tools, in force for as long as a process carries runs out."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from callsheet.server.settings import Settings
from callsheet.tools import REGISTRY
from callsheet.tools.guard import guard
from callsheet.tools.guard.policy import ToolPolicy, parse_policy
from callsheet.tools.web.client import WebClient
from callsheet.tools.web.fetch import create_fetch_tool


@contextmanager
def applied_tool_policy(settings: Settings) -> Iterator[None]:
    """Have tools called on the operator's terms, and data fetched where the operator lets it, meanwhile.

    Raises `Invalid` for terms that there are not.
    """
    before, guard.house = guard.house, read_tool_policy(settings)
    try:
        with _narrowed(settings.fetch_hosts) if settings.fetch_hosts else nullcontext():
            yield
    finally:
        guard.house = before


def read_tool_policy(settings: Settings) -> ToolPolicy:
    """Return the operator's word on tools; raises `Invalid` for terms that there are not."""
    return parse_policy(*(json.loads(one) for one in (settings.tools, settings.tool_grants, settings.prices)))


@contextmanager
def _narrowed(hosts: tuple[str, ...]) -> Iterator[None]:
    """Let `fetch_data` ask these names only."""
    before = REGISTRY["fetch_data"]
    domain = REGISTRY.domain(before.name)
    REGISTRY.add(
        create_fetch_tool(WebClient(hosts=frozenset(name.casefold() for name in hosts))), domain, replace=True
    )
    try:
        yield
    finally:
        REGISTRY.add(before, domain, replace=True)
