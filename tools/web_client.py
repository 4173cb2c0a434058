"""HTTP client for public web addresses.

Only http and https on their usual ports, only public addresses, checked after each redirect too. No header or
credential of the caller is sent. A response is data and never an instruction.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import httpcore

from callsheet.state.errors import DeadLink, Forbidden, Invalid, SlowLink, TooLarge

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves (name, port) to addresses."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name."""
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in entries]


async def trusted_certificates() -> ssl.SSLContext:
    """Return the machine's trusted certificates; read once, in a thread, because that is slow."""
    return await asyncio.to_thread(_default_context)


@cache
def _default_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def is_public(address: str) -> bool:
    """Return True if an address is public and does not stand for one that is not."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped:
            return is_public(str(ip.ipv4_mapped))
        # Addresses that stand for IPv4 behind NAT64 (RFC 6052) count as reserved.
        if ip.sixtofour or ip.teredo or ip.is_site_local or ip.is_reserved:
            return False
    return ip.is_global and not ip.is_multicast


class PublicNetwork(httpcore.AsyncNetworkBackend):
    """Connects only to addresses that it has resolved and checked."""

    def __init__(
        self,
        resolve: Resolve = resolve,
        *,
        private: bool = False,
        remedy: str = "",
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        """`private` allows this machine and its network; `remedy` is that of a refusal."""
        self._resolve = resolve
        self._private = private
        self._remedy = remedy
        self._network = network or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 -- httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a name if all its addresses are public; raises `Forbidden`."""
        addresses = await self._resolve(host, port)
        for address in addresses:
            if not (self._private or is_public(address)):
                raise Forbidden(
                    f"{host!r} is at {address!r}, which is not on the public internet", remedy=self._remedy
                )
        if not addresses:
            raise OSError(f"{host!r} has no address")
        return await self._network.connect_tcp(addresses[0], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._network.sleep(seconds)


MAX_REDIRECTS: Final = 5
_PORTS: Final = {"http": 80, "https": 443}
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = (("User-Agent", "callsheet"), ("Accept", "*/*"), ("Accept-Encoding", "identity"))
_REMEDY: Final = "name a public http:// or https:// address"
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([\w.:-]{1,40})", re.IGNORECASE)


@dataclass(frozen=True)
class WebResponse:
    """The response of an address."""

    url: str
    """URL after redirects."""
    status: int
    media_type: str
    """Media type in lower case without parameters; empty if absent."""
    charset: str
    """Character encoding from the header; empty if absent."""
    data: bytes


@dataclass(frozen=True)
class WebClient:
    """A client with its limits."""

    hosts: frozenset[str] = frozenset()
    """Allowed hosts with their subdomains; empty for every public one."""
    timeout_s: float = 10.0
    """Seconds for a request with its redirects."""
    max_bytes: int = 1_000_000
    """Largest response."""
    resolve: Resolve | None = None
    """Name resolution instead of the system's."""
    network: httpcore.AsyncNetworkBackend | None = None
    """Connections to checked addresses instead of sockets."""
    ssl_context: ssl.SSLContext | None = field(default=None, compare=False)

    async def get(self, url: str) -> WebResponse:
        """Return the response of an address.

        Raises `Invalid` for an unusable address, `Forbidden` for one that is not allowed, `TooLarge`,
        and `DeadLink` if nothing answers.
        """
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._follow_redirects(url)
        except TimeoutError as error:
            raise SlowLink(f"{url[:80]!r} did not answer within {self.timeout_s:g} s") from error

    async def _follow_redirects(self, url: str) -> WebResponse:
        for _ in range(MAX_REDIRECTS + 1):
            async with self._request(self._check_url(url)) as reply:
                headers = {
                    name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reply.headers
                }
                if reply.status not in _REDIRECTS or "location" not in headers:
                    return await self._read(reply, headers, url)
            url = urljoin(url, headers["location"])
        raise Invalid(
            f"{url[:80]!r} redirects more than {MAX_REDIRECTS} times", remedy="use the final address"
        )

    def _check_url(self, url: str) -> SplitResult:
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise Invalid(f"{url[:80]!r} is not an address", remedy=_REMEDY) from error
        if parts.scheme not in _PORTS or not host or parts.username is not None:
            raise Invalid(f"{url[:80]!r} is not a plain web address", remedy=_REMEDY)
        if port not in {None, _PORTS[parts.scheme]}:
            raise Forbidden(f"port {port} of {host!r} is not allowed", remedy="use the usual port")
        if self.hosts and not any(host == one or host.endswith(f".{one}") for one in self.hosts):
            known = ", ".join(sorted(self.hosts))
            raise Forbidden(f"host {host!r} is not allowed", remedy=f"use {known}")
        return parts

    @asynccontextmanager
    async def _request(self, parts: SplitResult) -> AsyncIterator[httpcore.Response]:
        network = PublicNetwork(self.resolve or resolve, network=self.network, remedy=_REMEDY)
        trust = self.ssl_context
        if trust is None and parts.scheme == "https":
            trust = await trusted_certificates()
        try:
            # One connection per request, so that every request is checked.
            async with (
                httpcore.AsyncConnectionPool(ssl_context=trust, network_backend=network) as pool,
                pool.stream("GET", _address(parts), headers=_HEADERS) as reply,
            ):
                yield reply
        except (OSError, httpcore.NetworkError, httpcore.TimeoutException) as error:
            raise DeadLink(f"{parts.hostname!r} does not answer: {type(error).__name__}") from error
        except httpcore.ProtocolError as error:
            raise Invalid(f"{parts.hostname!r} does not speak HTTP", remedy=_REMEDY) from error

    async def _read(self, reply: httpcore.Response, headers: Mapping[str, str], url: str) -> WebResponse:
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise Invalid(f"{url[:80]!r} answers in an unsupported encoding", remedy=_REMEDY)
        data = bytearray()
        async for piece in reply.aiter_stream():
            data += piece
            if len(data) > self.max_bytes:
                raise TooLarge(
                    f"{url[:80]!r} has more than {self.max_bytes} bytes", remedy="use a smaller page"
                )
        content_type = headers.get("content-type", "")
        charset = _CHARSET.search(content_type)
        media = content_type.partition(";")[0].strip().lower()
        return WebResponse(url, reply.status, media, charset[1] if charset else "", bytes(data))


def _address(parts: SplitResult) -> httpcore.URL:
    host = str(parts.hostname)
    try:
        named = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError as error:
        raise Invalid(f"{host[:80]!r} is not a host name", remedy=_REMEDY) from error
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = f"?{quote(parts.query, safe='/%:@!$&()*+,;=~-._?')}" if parts.query else ""
    return httpcore.URL(scheme=parts.scheme, host=named, port=_PORTS[parts.scheme], target=path + query)
