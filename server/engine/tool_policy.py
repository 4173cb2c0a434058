"""The operator's tool policy, read from the settings."""

import json
import logging
from collections.abc import Collection
from typing import Final

from callsheet.server.settings.settings import Settings
from callsheet.storage.tool_calls import CallRetention
from callsheet.tools.guard.tool_environment import Counters, NoCounters, ToolEnvironment
from callsheet.tools.pages.fetch import create_fetch_tool
from callsheet.tools.policy import ALL_TOOLS, ToolPolicy, parse_policy
from callsheet.tools.web_client import WebClient

_DAY_S: Final = 86_400
_log = logging.getLogger(__name__)


def create_tool_environment(settings: Settings, counters: Counters | None = None) -> ToolEnvironment:
    """Return the tool environment of the settings: limits, permissions, prices and fetch hosts.

    Raises `Invalid` for an unknown option.
    """
    replacements = {}
    if hosts := frozenset(name.casefold() for name in settings.fetch_hosts):
        fetching = create_fetch_tool(WebClient(hosts=hosts))
        replacements[fetching.name] = fetching
    kept_calls = CallRetention(settings.kept_tool_calls, settings.tool_call_days * _DAY_S)
    return ToolEnvironment(read_tool_policy(settings), counters or NoCounters(), replacements, kept_calls)


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
