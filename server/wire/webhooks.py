"""Webhooks: whoever asked for it is sent a run when it has ended, at public addresses only.

Delivered at least once. The address is looked up, checked and connected to in one step, so a name cannot
point elsewhere between the check and the call; redirects are not followed. With CALLSHEET_WEBHOOK_SECRET set,
the header `X-Callsheet-Signature: t=<unix seconds>,v1=<hex>` has the HMAC-SHA-256 of `<unix seconds>.<body>`.
"""

import asyncio
import hashlib
import hmac
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore

from server.encoding import dumps
from server.wire.run_shapes import shown
from state.errors import Forbidden, Invalid
from storage.run_records import Run

SIGNATURE: Final = "X-Callsheet-Signature"
"""Header that shows who sent the call and when."""
WAITS_S: Final = (1.0, 4.0, 9.0)
"""How long one waits before each new attempt."""
_PATIENCE_S: Final = 10.0
_OK: Final = range(200, 300)
_AGAIN: Final = frozenset({408, 425, 429})
"""Refusals that may pass; all others of the 400s stay."""
_log = logging.getLogger(__name__)

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""(name, port) to the addresses of it."""


async def resolved(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


@dataclass(frozen=True)
class Webhooks:
    """How webhooks are called."""

    secret: str = ""
    """What calls are signed with; empty where they are not."""
    private: bool = False
    """Whether addresses of this machine and its network may be called."""
    waits_s: Sequence[float] = WAITS_S
    resolve: Resolve = resolved
    trust: ssl.SSLContext = field(default_factory=ssl.create_default_context)

    async def tell(self, run: Run) -> None:
        """Send a run to its webhook; tries again, and gives up with a line in the log."""
        url, body = str(run.request["webhook"]), dumps(shown(run) | {"error": run.error})
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
        checked(url)
        try:
            async with (
                asyncio.timeout(_PATIENCE_S),
                httpcore.AsyncConnectionPool(
                    ssl_context=self.trust, network_backend=_Public(self.resolve, private=self.private)
                ) as pool,
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

    def _headers(self, body: bytes) -> list[tuple[str | bytes, str | bytes]]:
        signed = signature(self.secret, body, int(time.time())) if self.secret else ""
        sent: list[tuple[str | bytes, str | bytes]] = [("Content-Type", "application/json")]
        return [*sent, ("User-Agent", "callsheet"), *([(SIGNATURE, signed)] if signed else [])]


def checked(url: str) -> str:
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


def signature(secret: str, body: bytes, at_s: int) -> str:
    """Return what shows that `body` was sent by who knows `secret`, at that time."""
    code = hmac.new(secret.encode(), b"%d.%s" % (at_s, body), hashlib.sha256).hexdigest()
    return f"t={at_s},v1={code}"


def is_public(address: str) -> bool:
    """Return whether an address is on the public internet, and no way around to one that is not."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped:
            return is_public(str(found.ipv4_mapped))
        if found.sixtofour or found.teredo or found in _NAT64:
            return False
    return found.is_global and not found.is_multicast


class _Nat64:
    """The IPv6 addresses that stand for IPv4 ones (RFC 6052)."""

    def __contains__(self, address: IPv6Address) -> bool:
        return address.packed.startswith(bytes.fromhex("0064ff9b"))


_NAT64: Final = _Nat64()


class _Public(httpcore.AsyncNetworkBackend):
    """Connects to the addresses it has looked up and checked itself."""

    def __init__(self, resolve: Resolve, *, private: bool) -> None:
        self._resolve = resolve
        self._private = private
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 -- httpcore's signature
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a name, if all of its addresses are public; raises `Forbidden`."""
        addresses = await self._resolve(host, port)
        for address in addresses:
            if not (self._private or is_public(address)):
                raise Forbidden(
                    f"{host!r} is at {address!r}, which is not on the public internet",
                    remedy="set CALLSHEET_WEBHOOK_PRIVATE=true to call your own network",
                )
        if not addresses:
            raise OSError(f"{host!r} has no address")
        return await self._network.connect_tcp(addresses[0], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._network.sleep(seconds)
