"""Webhooks: whoever asked for it is sent a run when it has ended, at public addresses only.

Delivered at least once. The address is looked up, checked and connected to in one step, so a name cannot
point elsewhere between the check and the call; redirects are not followed. With CALLSHEET_WEBHOOK_SECRET set,
the header `X-Callsheet-Signature: t=<unix seconds>,v1=<hex>` has the HMAC-SHA-256 of `<unix seconds>.<body>`.
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

from callsheet.server.langgraph.shapes import run_view
from callsheet.server.runtime.encoding import dumps
from callsheet.state.errors import Forbidden, Invalid
from callsheet.storage.runs.records import Run
from callsheet.tools.web.public_network import PublicNetwork, Resolve, resolve, trusted_certificates

SIGNATURE_HEADER: Final = "X-Callsheet-Signature"
"""Header that shows who sent the call and when."""
RETRY_DELAYS_S: Final = (1.0, 4.0, 9.0)
"""How long one waits before each new attempt."""
_PATIENCE_S: Final = 10.0
_OK: Final = range(200, 300)
_AGAIN: Final = frozenset({408, 425, 429})
"""Refusals that may pass; all others of the 400s stay."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WebhookCaller:
    """How webhooks are called."""

    secret: str = ""
    """What calls are signed with; empty where they are not."""
    private: bool = False
    """Whether addresses of this machine and its network may be called."""
    waits_s: Sequence[float] = RETRY_DELAYS_S
    resolve: Resolve = resolve
    trust: ssl.SSLContext | None = None
    """Whose certificates count; by default those this machine trusts."""

    async def call(self, run: Run) -> None:
        """Send a run to its webhook; tries again, and gives up with a line in the log."""
        url, body = str(run.request["webhook"]), dumps(run_view(run) | {"error": run.error})
        for wait_s in (*self.waits_s, None):
            try:
                refusal = await self._refusal(url, body)
            except (Forbidden, Invalid) as error:
                refusal, wait_s = str(error), None  # noqa: PLW2901 -- another attempt would end the same
            if refusal is None:
                return
            if wait_s is None:
                _log.warning("the webhook of run %s was not told: %s", run.id, refusal)
                return
            await asyncio.sleep(wait_s)

    async def _refusal(self, url: str, body: bytes) -> str | None:
        """Call once; return why that failed, or None. Raises where it can never succeed."""
        trust = self.trust
        if trust is None and urlsplit(checked_url(url)).scheme == "https":
            trust = await trusted_certificates()
        try:
            async with (
                asyncio.timeout(_PATIENCE_S),
                httpcore.AsyncConnectionPool(ssl_context=trust, network_backend=self._network()) as pool,
            ):
                reply = await pool.request("POST", url, headers=self._headers(body), content=body)
        except (OSError, TimeoutError, httpcore.NetworkError, httpcore.TimeoutException) as error:
            return f"{type(error).__name__}: {error}"
        except httpcore.ProtocolError as error:
            return f"it does not speak HTTP: {error}"
        if reply.status in _OK:
            return None
        told = f"it answered {reply.status}"
        if reply.status < 500 and reply.status not in _AGAIN:  # noqa: PLR2004 -- HTTP's own border
            raise Invalid(told)
        return told

    def _network(self) -> PublicNetwork:
        remedy = "set CALLSHEET_WEBHOOK_PRIVATE=true to call your own network"
        return PublicNetwork(self.resolve, private=self.private, remedy=remedy)

    def _headers(self, body: bytes) -> list[tuple[str | bytes, str | bytes]]:
        signed = sign(self.secret, body, int(time.time())) if self.secret else ""
        sent: list[tuple[str | bytes, str | bytes]] = [("Content-Type", "application/json")]
        return [*sent, ("User-Agent", "callsheet"), *([(SIGNATURE_HEADER, signed)] if signed else [])]


def checked_url(url: str) -> str:
    """Return the address of a webhook, if it can be one; raises `Invalid`."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or parts.username is not None:
        raise Invalid(
            f"webhook {url[:80]!r} is no address that can be called",
            remedy="send http:// or https:// and a host, without a password",
        )
    return url


def sign(secret: str, body: bytes, at_s: int) -> str:
    """Return what shows that `body` was sent by who knows `secret`, at that time."""
    code = hmac.new(secret.encode(), b"%d.%s" % (at_s, body), hashlib.sha256).hexdigest()
    return f"t={at_s},v1={code}"
