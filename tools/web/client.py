"""What is got from the web: text of public addresses, as data (C24).

Only http and https, only their usual ports, only addresses that are public, after each redirect too; nothing
of the caller's goes along. What comes back is data: nothing in it is an order to anyone.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from callsheet.state.errors import Forbidden, Invalid, NotReached, TimedOut, TooLarge

if TYPE_CHECKING:
    import httpcore

    from callsheet.tools.web.public_network import Resolve

MAX_REDIRECTS: Final = 5
_PORTS: Final = {"http": 80, "https": 443}
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = (("User-Agent", "callsheet"), ("Accept", "*/*"), ("Accept-Encoding", "identity"))
_REMEDY: Final = "name a public http:// or https:// address"
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([\w.:-]{1,40})", re.IGNORECASE)


@dataclass(frozen=True)
class WebResponse:
    """What an address answered."""

    url: str
    """Where it was in the end, after redirects."""
    status: int
    media: str
    """Its media type, in small letters and without parameters; empty where it does not say."""
    charset: str
    """What it says its bytes are in; empty where it does not say."""
    data: bytes


@dataclass(frozen=True)
class WebClient:
    """How the web is reached."""

    hosts: frozenset[str] = frozenset()
    """Names that may be asked, and those below them; empty for every public one."""
    patience_s: float = 10.0
    """Seconds for all of it, redirects included."""
    most: int = 1_000_000
    """Bytes that an answer may have."""
    resolve: "Resolve | None" = None
    """How names are looked up, where not by the system."""
    network: "httpcore.AsyncNetworkBackend | None" = None
    """How checked addresses are connected to, where not by sockets."""
    trust: ssl.SSLContext | None = field(default=None, compare=False)

    async def get(self, url: str) -> WebResponse:
        """Return what is at an address.

        Raises `Invalid` for one that cannot be asked, `Forbidden` for one that may not be, `TooLarge`,
        `TimedOut`, and `NotReached` where nobody answers.
        """
        try:
            async with asyncio.timeout(self.patience_s):
                return await self._followed(url)
        except TimeoutError as error:
            raise TimedOut(f"{url[:80]!r} gave no answer within {self.patience_s:g} s") from error

    async def _followed(self, url: str) -> WebResponse:
        for _ in range(MAX_REDIRECTS + 1):
            async with self._asked(self._checked(url)) as reply:
                headers = {
                    name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reply.headers
                }
                if reply.status not in _REDIRECTS or "location" not in headers:
                    return await self._read(reply, headers, url)
            url = urljoin(url, headers["location"])
        raise Invalid(f"{url[:80]!r} leads on and on", remedy="name the address it should lead to")

    def _checked(self, url: str) -> SplitResult:
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise Invalid(f"{url[:80]!r} is no address", remedy=_REMEDY) from error
        if parts.scheme not in _PORTS or not host or parts.username is not None:
            raise Invalid(f"{url[:80]!r} is no plain address of the web", remedy=_REMEDY)
        if port not in {None, _PORTS[parts.scheme]}:
            raise Forbidden(f"port {port} of {host!r} is not asked", remedy="use the usual port")
        if self.hosts and not any(host == one or host.endswith(f".{one}") for one in self.hosts):
            known = ", ".join(sorted(self.hosts))
            raise Forbidden(f"{host!r} is not among the names that may be asked", remedy=f"use {known}")
        return parts

    @asynccontextmanager
    async def _asked(self, parts: SplitResult) -> "AsyncIterator[httpcore.Response]":
        import httpcore  # noqa: PLC0415 -- not needed before the first look-up

        from callsheet.tools.web.public_network import PublicNetwork, resolve, trusted_certificates  # noqa: PLC0415 -- brings httpcore along

        network = PublicNetwork(self.resolve or resolve, network=self.network, remedy=_REMEDY)
        trust = self.trust
        if trust is None and parts.scheme == "https":
            trust = await trusted_certificates()
        try:
            # A connection for each request: what was checked for one is not kept for another.
            async with (
                httpcore.AsyncConnectionPool(ssl_context=trust, network_backend=network) as pool,
                pool.stream("GET", _address(parts), headers=_HEADERS) as reply,
            ):
                yield reply
        except (OSError, httpcore.NetworkError, httpcore.TimeoutException) as error:
            raise NotReached(f"{parts.hostname!r} does not answer: {type(error).__name__}") from error
        except httpcore.ProtocolError as error:
            raise Invalid(f"{parts.hostname!r} does not speak HTTP", remedy=_REMEDY) from error

    async def _read(self, reply: "httpcore.Response", headers: Mapping[str, str], url: str) -> WebResponse:
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise Invalid(f"{url[:80]!r} answers in a form that was not asked for", remedy=_REMEDY)
        data = bytearray()
        async for piece in reply.aiter_stream():
            data += piece
            if len(data) > self.most:
                raise TooLarge(
                    f"{url[:80]!r} has more than {self.most} bytes", remedy="name something smaller"
                )
        told = headers.get("content-type", "")
        charset = _CHARSET.search(told)
        media = told.partition(";")[0].strip().lower()
        return WebResponse(url, reply.status, media, charset[1] if charset else "", bytes(data))


def _address(parts: SplitResult) -> "httpcore.URL":
    import httpcore  # noqa: PLC0415

    host = str(parts.hostname)
    try:
        named = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError as error:
        raise Invalid(f"{host[:80]!r} is no name of the web", remedy=_REMEDY) from error
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = f"?{quote(parts.query, safe='/%:@!$&()*+,;=~-._?')}" if parts.query else ""
    return httpcore.URL(scheme=parts.scheme, host=named, port=_PORTS[parts.scheme], target=path + query)
