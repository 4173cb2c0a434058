"""The operator's word on tools, in force for as long as a process carries runs out."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from server.settings import Settings
from tools import REGISTRY, guard
from tools.fetching import fetching
from tools.terms import House, house
from tools.web import Web


@contextmanager
def governed(settings: Settings) -> Iterator[None]:
    """Have tools called on the operator's terms, and data fetched where the operator lets it, meanwhile.

    Raises `Invalid` for terms that there are not.
    """
    before, guard.house = guard.house, told(settings)
    try:
        with _narrowed(settings.fetch_hosts) if settings.fetch_hosts else nullcontext():
            yield
    finally:
        guard.house = before


def told(settings: Settings) -> House:
    """Return the operator's word on tools; raises `Invalid` for terms that there are not."""
    return house(*(json.loads(one) for one in (settings.tools, settings.tool_grants, settings.prices)))


@contextmanager
def _narrowed(hosts: tuple[str, ...]) -> Iterator[None]:
    """Let `fetch_data` ask these names only."""
    before = REGISTRY["fetch_data"]
    domain = REGISTRY.domain(before.name)
    REGISTRY.add(fetching(Web(hosts=frozenset(name.casefold() for name in hosts))), domain, replace=True)
    try:
        yield
    finally:
        REGISTRY.add(before, domain, replace=True)
