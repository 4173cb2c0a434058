"""Sockets that a server listens on."""

import errno
import os
import socket

from callsheet.server.settings.installation import program
from callsheet.state.errors import CallsheetError, Conflict, Invalid


def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets bound to every address of `host`; raises `Invalid` or `Conflict` with the port."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise Invalid(f"host {host!r} is not an address of this machine", remedy="use 127.0.0.1") from error
    listeners: list[socket.socket] = []
    try:
        for family, where in dict.fromkeys((entry[0], entry[4]) for entry in addresses):
            chosen = listeners[0].getsockname()[1] if listeners else port
            listeners.append(_bind(family, (str(where[0]), chosen)))
    except OSError as error:
        for listener in listeners:
            listener.close()
        raise bind_error(host, port, error) from error
    return listeners


def _bind(family: int, where: tuple[str, int]) -> socket.socket:
    # With the protocol named: asyncio sets TCP_NODELAY only on sockets it recognises as TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(where)
        # Listen now, so that a port in use is found before the slow part of the start.
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def bind_error(host: str, port: int, error: OSError) -> CallsheetError:
    """Return the error for the user if the system refuses a port or an address."""
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"port {port} on {host} is in use by another program",
            remedy=f"stop that program, or choose a free port: {program()} serve --port 0",
        )
    if error.errno == errno.EACCES:
        return Invalid(f"port {port} may not be used by this user", remedy="choose a port from 1024 on")
    return Invalid(
        f"host {host!r} cannot be listened on: {os.strerror(error.errno or 0).lower()}",
        remedy="use 127.0.0.1",
    )


def url_host(host: str) -> str:
    """Return a host in the form of a URL."""
    return f"[{host}]" if ":" in host else host
