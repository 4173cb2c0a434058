"""Connections to the public internet alone: names are resolved once and every address is checked.

So a name cannot change between check and connection, and no spelling reaches this machine or its network.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from ipaddress import IPv6Address, ip_address
from typing import Any

import httpcore

from callsheet.state.errors import Forbidden

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
