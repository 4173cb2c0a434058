"""Applies the operator's tool policy while this process executes runs."""

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
def apply_tool_policy(settings: Settings) -> Iterator[None]:
    """Apply the operator's limits, permissions and fetch hosts for the length of the `with`.

    Raises `Invalid` for an unknown option.
    """
    before, guard.policy = guard.policy, read_tool_policy(settings)
    try:
        with _restrict_fetch(settings.fetch_hosts) if settings.fetch_hosts else nullcontext():
            yield
    finally:
        guard.policy = before


def read_tool_policy(settings: Settings) -> ToolPolicy:
    """Return the operator's policy; raises `Invalid` for an unknown option."""
    return parse_policy(*(json.loads(one) for one in (settings.tools, settings.tool_grants, settings.prices)))


@contextmanager
def _restrict_fetch(hosts: tuple[str, ...]) -> Iterator[None]:
    """Restrict `fetch_data` to these hosts."""
    before = REGISTRY["fetch_data"]
    domain = REGISTRY.domain(before.name)
    REGISTRY.add(
        create_fetch_tool(WebClient(hosts=frozenset(name.casefold() for name in hosts))), domain, replace=True
    )
    try:
        yield
    finally:
        REGISTRY.add(before, domain, replace=True)
