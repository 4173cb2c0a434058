"""Providers that failed a moment ago, in this process."""

import time
from collections.abc import Callable
from functools import cache
from typing import Final

from callsheet.state.errors import Unavailable

MIN_REST_S: Final = 30.0
"""Shortest time for which a provider that failed is passed over, where another one can answer."""
MAX_REST_S: Final = 300.0


class Outages:
    """A circuit breaker per provider: it opens with a failure and closes by itself."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[float, str]] = {}

    def report(self, provider: str, error: Unavailable) -> None:
        """Pass the provider over for as long as its error asks for, within the limits."""
        rest_s = min(max(error.retry_after_s, MIN_REST_S), MAX_REST_S)
        self._failures[provider] = (self._clock() + rest_s, error.message)

    def current(self) -> dict[str, str]:
        """Return the providers to pass over now, each with its error."""
        now = self._clock()
        self._failures = {name: failure for name, failure in self._failures.items() if failure[0] > now}
        return {name: message for name, (_, message) in self._failures.items()}


@cache
def outages() -> Outages:
    """Return the process's own."""
    return Outages()
