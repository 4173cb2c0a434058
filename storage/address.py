"""Where a Redis server is: its URL, checked, with the password kept out of every message."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from state.errors import Invalid

MAX_CONNECTIONS: Final = 64
"""How many connections one process opens unless the URL says otherwise."""
_CLUSTER: Final = "+cluster"
_SCHEMES: Final = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster")
_TLS: Final = frozenset(
    {"ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile"}
)
_OPTIONS: Final = frozenset({"cluster", "db", "max_connections"}) | _TLS
_YES: Final = frozenset({"1", "true", "yes"})
_REMEDY: Final = (
    "Write it as redis://[user:password@]host:port/db, rediss://…, redis+cluster://… or unix:///path."
)


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address, known to be well formed."""

    shown: str
    """For people: without user and password."""
    url: str
    """For redis-py: `redis://`, `rediss://` or `unix://`, without the options that are ours."""
    cluster: bool
    """Whether it is a node of a Redis Cluster."""
    max_connections: int
    """The most connections one process may open (on a cluster: to each node)."""

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"


def parse(url: str) -> Address:
    """The address that `url` names; `Invalid` says what is wrong with it and never shows the password."""
    parts, options = _split(url)
    if parts.scheme not in _SCHEMES:
        raise _wrong(url, f"must begin with one of {', '.join(f'{scheme}://' for scheme in _SCHEMES)}")
    if unknown := options.keys() - _OPTIONS:
        raise _wrong(url, f"has unknown options {sorted(unknown)}; known are {sorted(_OPTIONS)}")
    cluster = options.pop("cluster", "").lower() in _YES or parts.scheme.endswith(_CLUSTER)
    limit = options.pop("max_connections", str(MAX_CONNECTIONS))
    if not limit.isdecimal() or int(limit) < 1:
        raise _wrong(url, f"has max_connections={limit!r}, which must be a number from 1")
    _check_target(url, parts, options.get("db"), cluster=cluster)
    plain = parts._replace(scheme=parts.scheme.removesuffix(_CLUSTER), query=urlencode(options))
    # Without a host, urllib drops the empty authority: unix:/path instead of unix:///path.
    return Address(shown(url), re.sub(r"^unix:/+", "unix:///", plain.geturl()), cluster, int(limit))


def shown(url: str) -> str:
    """`url` without what stands before its last `@`, which may hold a password."""
    return re.sub(r"^([\w+.-]*:/*)?.*@", r"\1***@", url, flags=re.DOTALL)


def _split(url: str) -> tuple[SplitResult, dict[str, str]]:
    try:
        parts = urlsplit(url)
        # Reading the port checks it.
        _ = parts.port
        return parts, dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        # The reason that urllib gives may quote the password.
        raise _wrong(url, "is no URL with a valid host and port") from None


def _check_target(url: str, parts: SplitResult, database: str | None, *, cluster: bool) -> None:
    if parts.scheme == "unix":
        if cluster or not parts.path.strip("/"):
            raise _wrong(url, "must name the path of a socket, and no cluster has one")
    else:
        if not parts.hostname:
            raise _wrong(url, "names no host")
        database = database if database is not None else unquote(parts.path).strip("/")
    if database and not database.isdecimal():
        raise _wrong(url, f"names the database {database!r}, which must be a number")
    if cluster and int(database or 0):
        raise _wrong(url, f"names the database {database}, and a cluster has only 0")


def _wrong(url: str, rule: str) -> Invalid:
    return Invalid(f"the Redis URL {shown(url)!r} {rule}", remedy=_REMEDY)
