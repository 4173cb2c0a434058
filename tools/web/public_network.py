"""The public internet: names looked up once, every address checked, and the checked one connected to.

So a name cannot point elsewhere between the check and the call, and no address of this machine or its
network is reached by any spelling.
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
"""(name, port) to the addresses of it."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def trusted_certificates() -> ssl.SSLContext:
    """Return whose certificates this machine trusts; read once, in a thread, since that takes long."""
    return await asyncio.to_thread(_authorities)


@cache
def _authorities() -> ssl.SSLContext:
    return ssl.create_default_context()


def is_public(address: str) -> bool:
    """Return whether an address is on the public internet, and no way around to one that is not."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped:
            return is_public(str(found.ipv4_mapped))
        # Those that stand for IPv4 ones behind NAT64 (RFC 6052) are reserved, too.
        if found.sixtofour or found.teredo or found.is_site_local or found.is_reserved:
            return False
    return found.is_global and not found.is_multicast


class PublicNetwork(httpcore.AsyncNetworkBackend):
    """Connects to the addresses it has looked up and checked itself."""

    def __init__(
        self,
        resolve: Resolve = resolve,
        *,
        private: bool = False,
        remedy: str = "",
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        """`private` lets this machine and its network be reached; `remedy` says how, where it does not."""
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
        """Connect to a name, if all of its addresses are public; raises `Forbidden`."""
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
