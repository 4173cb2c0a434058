"""JSON from a vendor's HTTP service that is not a language model."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import httpcore

from callsheet.state.errors import Unavailable

_TIMEOUT_S: Final = 10.0


async def fetch_json(url: str, service: str, headers: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """Return the JSON object at an address; raises `Unavailable` that names the service alone.

    The URL and the headers may contain a key, so they are in no error.
    """
    timeouts = dict.fromkeys(("connect", "read", "write", "pool"), _TIMEOUT_S)
    try:
        async with httpcore.AsyncConnectionPool() as pool:
            response = await pool.request(
                "GET", url, headers=[*(headers or {}).items()], extensions={"timeout": timeouts}
            )
        if response.status != HTTPStatus.OK:
            raise _no_answer(service, f"status {response.status}")
        reply: Any = json.loads(response.content)
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, ValueError) as error:
        raise _no_answer(service, type(error).__name__) from None
    if not isinstance(reply, dict):
        raise _no_answer(service, "no JSON object")
    return reply


def _no_answer(service: str, reason: str) -> Unavailable:
    return Unavailable(f"{service} gave no answer: {reason}", remedy="try again later")
