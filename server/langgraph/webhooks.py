"""Webhooks: a run is posted to its webhook when it has ended, at public addresses only, at least once.

The host name is resolved, checked and connected to in one step, so it cannot point elsewhere between check
and call. Redirects are not followed. With CALLSHEET_WEBHOOK_SECRET set, the header
`X-Callsheet-Signature: t=<unix seconds>,v1=<hex>` holds the HMAC-SHA-256 of `<unix seconds>.<body>`.
"""

import asyncio
import hashlib
import hmac
import logging
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpcore

from callsheet.server.engine.errors import error_message
from callsheet.server.engine.json_values import dumps
from callsheet.server.langgraph.schemas import checked_url, run_view
from callsheet.state.errors import Forbidden, Invalid
from callsheet.storage.runs.records import Run
from callsheet.tools.web_client import PublicNetwork, Resolve, is_public, resolve, trusted_certificates

SIGNATURE_HEADER: Final = "X-Callsheet-Signature"
RETRY_DELAYS_S: Final = (1.0, 4.0, 9.0)
"""Seconds before each further attempt."""
_TIMEOUT_S: Final = 10.0
_OK: Final = range(200, 300)
_RETRIED: Final = frozenset({408, 425, 429})
"""Statuses of the 400s after which another attempt may succeed."""
_REMEDY: Final = "name a public address, or set CALLSHEET_WEBHOOK_PRIVATE=true to call your own network"
_log = logging.getLogger(__name__)


def require_callable(url: str | None, *, allow_private: bool) -> None:
    """Raise `Invalid` for a webhook that no attempt could call; None is no webhook.

    A name is resolved when it is called, since it may point elsewhere by then.
    """
    host = urlsplit(checked_url(url)).hostname if url else None
    if host and not allow_private and _is_private(host):
        raise Invalid(
            f"webhook {str(url)[:80]!r} is at {host!r}, and webhooks call the public internet alone",
            remedy=_REMEDY,
        )


def _is_private(host: str) -> bool:
    try:
        return not is_public(host)
    except ValueError:  # a name, of which these stand for this machine (RFC 6761)
        return host == "localhost" or host.endswith(".localhost")


@dataclass(frozen=True)
class WebhookCaller:
    """HTTP client that posts runs to their webhooks."""

    secret: str = ""
    """Key of the signature; empty for no signature."""
    allow_private: bool = False
    """Allows addresses of this machine and its network."""
    retry_delays_s: Sequence[float] = RETRY_DELAYS_S
    resolve: Resolve = resolve
    ssl_context: ssl.SSLContext | None = None
    """Trusted certificates; by default those of this machine."""

    async def call(self, run: Run) -> None:
        """Post a run to its webhook; retry after failures, and log a warning when giving up."""
        url, body = str(run.request["webhook"]), dumps(run_view(run) | {"error": run.error})
        for delay_s in (*self.retry_delays_s, None):
            try:
                failure = await self._post(url, body)
            except (Forbidden, Invalid) as error:
                failure, delay_s = error_message(error), None  # noqa: PLW2901 -- another attempt would fail as well
            if failure is None:
                return
            if delay_s is None:
                about = {"run_id": run.id, "thread_id": run.thread, "graph": run.graph, "owner": run.owner}
                _log.warning("webhook of run %s failed: %s", run.id, failure, extra=about)
                return
            await asyncio.sleep(delay_s)

    async def _post(self, url: str, body: bytes) -> str | None:
        """Call once. Return why a retry is needed, or None; raise if a retry cannot help."""
        ssl_context = self.ssl_context
        if ssl_context is None and urlsplit(checked_url(url)).scheme == "https":
            ssl_context = await trusted_certificates()
        network = PublicNetwork(self.resolve, private=self.allow_private, remedy=_REMEDY)
        try:
            async with (
                asyncio.timeout(_TIMEOUT_S),
                httpcore.AsyncConnectionPool(ssl_context=ssl_context, network_backend=network) as pool,
            ):
                reply = await pool.request("POST", url, headers=self._headers(body), content=body)
        except (OSError, TimeoutError, httpcore.NetworkError, httpcore.TimeoutException) as error:
            return f"{type(error).__name__}: {error}"
        except httpcore.ProtocolError as error:
            return f"it does not speak HTTP: {error}"
        if reply.status in _OK:
            return None
        failure = f"it answered {reply.status}"
        if reply.status < 500 and reply.status not in _RETRIED:  # noqa: PLR2004 -- HTTP's server errors
            raise Invalid(failure)
        return failure

    def _headers(self, body: bytes) -> list[tuple[str | bytes, str | bytes]]:
        headers: list[tuple[str | bytes, str | bytes]] = [
            ("Content-Type", "application/json"),
            ("User-Agent", "callsheet"),
        ]
        if self.secret:
            headers.append((SIGNATURE_HEADER, sign(self.secret, body, int(time.time()))))
        return headers


def sign(secret: str, body: bytes, at_s: int) -> str:
    """Return the signature header of `body`, sent at `at_s` seconds since the epoch."""
    code = hmac.new(secret.encode(), b"%d.%s" % (at_s, body), hashlib.sha256).hexdigest()
    return f"t={at_s},v1={code}"
