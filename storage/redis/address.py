"""Where a Redis server is: its URL, checked, with the password kept out of every message."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from callsheet.state.errors import Invalid

MAX_CONNECTIONS: Final = 64
"""How many connections one process opens unless the URL says otherwise."""
_CLUSTER: Final = "+cluster"
_SCHEMES: Final = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster")
_TLS: Final = frozenset(
    {"ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile"}
)
_OPTIONS: Final = frozenset({"cluster", "db", "max_connections"}) | _TLS
_SWITCH: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_REMEDY: Final = (
    "Write it as redis://[user:password@]host:port/db, rediss://…, redis+cluster://… or unix:///path."
)


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address, known to be well formed."""

    redacted_url: str
    """For people: without user and password."""
    url: str
    """For redis-py: `redis://`, `rediss://` or `unix://`, without the options that are ours."""
    cluster: bool
    """Whether it is a node of a Redis Cluster."""
    max_connections: int
    """The most connections one process may open (on a cluster: to each node)."""

    def __repr__(self) -> str:
        return f"Address({self.redacted_url!r})"


def parse(url: str) -> Address:
    """The address that `url` names; `Invalid` says what is wrong with it and never shows the password."""
    parts, options = _split(url)
    if unknown := options.keys() - _OPTIONS:
        raise _wrong(url, f"has unknown options {sorted(unknown)}; known are {sorted(_OPTIONS)}")
    cluster = options.pop("cluster", str(parts.scheme.endswith(_CLUSTER))).lower()
    if cluster not in _SWITCH:
        raise _wrong(url, f"has cluster={cluster!r}, which must be true or false")
    limit = options.pop("max_connections", str(MAX_CONNECTIONS))
    if not limit.isdecimal() or int(limit) < 1:
        raise _wrong(url, f"has max_connections={limit!r}, which must be a number from 1")
    _check_target(url, parts, options.get("db"), cluster=_SWITCH[cluster])
    plain = parts._replace(scheme=parts.scheme.removesuffix(_CLUSTER), query=urlencode(options))
    # For an empty authority urllib writes unix:/path instead of unix:///path.
    written = plain.geturl() if plain.netloc else re.sub(r"^unix:/+", "unix:///", plain.geturl())
    return Address(redact(url), written, _SWITCH[cluster], int(limit))


def redact(url: str) -> str:
    """`url` without what stands before its last `@`, which may hold a password."""
    return re.sub(r"^([\w+.-]*:/*)?.*@", r"\1***@", url, flags=re.DOTALL)


def _split(url: str) -> tuple[SplitResult, dict[str, str]]:
    # `from None`: the reasons that urllib gives may quote the password.
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _wrong(url, "is no URL") from None
    if parts.scheme not in _SCHEMES:
        raise _wrong(url, f"must begin with one of {', '.join(f'{scheme}://' for scheme in _SCHEMES)}")
    # Otherwise the beginning of a password would be taken, and shown, as the host.
    if parts.fragment or "@" in parts.path + parts.query:
        raise _wrong(url, "has a character out of place: in user and password, write / ? # as %2F %3F %23")
    try:
        # Reading the port checks it.
        _ = parts.port
    except ValueError:
        raise _wrong(url, "has a port that is no number up to 65535") from None
    return parts, dict(parse_qsl(parts.query, keep_blank_values=True))


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
    return Invalid(f"the Redis URL {redact(url)!r} {rule}", remedy=_REMEDY)
