"""Applies the operator's tool policy while this process executes runs."""

import json
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext

from callsheet.server.settings import Settings
from callsheet.tools import REGISTRY
from callsheet.tools.guard import guard
from callsheet.tools.guard.policy import ALL_TOOLS, ToolPolicy, parse_policy
from callsheet.tools.web.client import WebClient
from callsheet.tools.web.fetch import create_fetch_tool

_log = logging.getLogger(__name__)


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
    written = (settings.tools, settings.tool_grants, settings.prices, settings.budgets)
    return parse_policy(*(json.loads(one) for one in written))


def unknown_tools(settings: Settings, served: Collection[str]) -> str:
    """Return a warning that names the limited tools that no served workflow has; empty if there is none."""
    unknown = sorted(json.loads(settings.tools).keys() - {ALL_TOOLS, *served})
    if not unknown:
        return ""
    return f"CALLSHEET_TOOLS names {', '.join(map(repr, unknown))}, which no served workflow has"


def warn_of_unknown_tools(settings: Settings, served: Collection[str]) -> None:
    """Log a warning if the settings limit a tool that no workflow has, such as a misspelt one."""
    if warning := unknown_tools(settings, served):
        _log.warning("%s; GET /api/tools lists the tools", warning)


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
