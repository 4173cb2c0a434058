"""Redis URLs: parsing, checks, and a form without the password for messages."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from callsheet.state.errors import Invalid

MAX_CONNECTIONS: Final = 64
"""Default limit on the connections of one process."""
_CLUSTER: Final = "+cluster"
_SCHEMES: Final = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster")
_TLS_OPTIONS: Final = frozenset(
    {"ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile"}
)
_CONNECTION_OPTIONS: Final = frozenset(
    {"client_name", "health_check_interval", "socket_connect_timeout", "socket_keepalive", "socket_timeout"}
)
"""Options that redis-py reads itself."""
_SECONDS: Final = ("health_check_interval", "socket_connect_timeout", "socket_timeout")
_OPTIONS: Final = frozenset({"cluster", "db", "max_connections"}) | _TLS_OPTIONS | _CONNECTION_OPTIONS
_BOOLEANS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_REMEDY: Final = (
    "Write it as redis://[user:password@]host:port/db, rediss://…, redis+cluster://host:port,host:port… "
    "or unix:///path."
)
_PORT: Final = 6379
_NUMBER: Final = re.compile(r"\d{1,6}(?:\.\d{1,6})?")


@dataclass(frozen=True, slots=True)
class Address:
    """The validated address of a server."""

    redacted_url: str
    """For messages: without user and password."""
    url: str
    """For redis-py: `redis://`, `rediss://` or `unix://`, without our own options."""
    cluster: bool
    """True for a node of a Redis Cluster."""
    max_connections: int
    """Limit on the connections of one process (on a cluster: to each node)."""
    other_nodes: tuple[tuple[str, int], ...] = ()
    """Further nodes of a cluster that the URL names, as host and port."""

    def __repr__(self) -> str:
        return f"Address({self.redacted_url!r})"

    def docket_url(self, options: Mapping[str, object], node: tuple[str, int] | None = None) -> str:
        """Return the URL for Docket, with options for redis-py; that of a node has no login."""
        parts = urlsplit(self.url)
        # Its reads wait longer than a command may take.
        kept = [pair for pair in parse_qsl(parts.query) if pair[0] not in _CONNECTION_OPTIONS]
        query = urlencode([*kept, *options.items()])
        netloc = parts.netloc
        if node:
            netloc = f"[{node[0]}]:{node[1]}" if ":" in node[0] else f"{node[0]}:{node[1]}"
        scheme = parts.scheme + (_CLUSTER if self.cluster else "")
        return _with_authority(parts._replace(scheme=scheme, netloc=netloc, query=query))


def parse(url: str) -> Address:
    """Return the address in `url`. Raises `Invalid`, whose message never shows the password."""
    parts, others, options = _split(url)
    if unknown := options.keys() - _OPTIONS:
        raise _invalid(url, f"has unknown options {sorted(unknown)}; known are {sorted(_OPTIONS)}")
    cluster = options.pop("cluster", str(parts.scheme.endswith(_CLUSTER))).lower()
    if cluster not in _BOOLEANS:
        raise _invalid(url, f"has cluster={cluster!r}, which must be true or false")
    limit = options.pop("max_connections", str(MAX_CONNECTIONS))
    if not limit.isdecimal() or int(limit) < 1:
        raise _invalid(url, f"has max_connections={limit!r}, which must be a number from 1")
    for name in _SECONDS:
        if not _NUMBER.fullmatch(options.get(name, "0")):
            raise _invalid(url, f"has {name}={options[name]!r}, which must be a number of seconds")
    _check_target(url, parts, options.get("db"), cluster=_BOOLEANS[cluster])
    if others and not _BOOLEANS[cluster]:
        raise _invalid(url, "names several hosts, which only a cluster has")
    plain = parts._replace(scheme=parts.scheme.removesuffix(_CLUSTER), query=urlencode(options))
    return Address(redact(url), _with_authority(plain), _BOOLEANS[cluster], int(limit), others)


def _with_authority(parts: SplitResult) -> str:
    # urllib writes an empty authority as unix:/path instead of unix:///path.
    return parts.geturl() if parts.netloc else re.sub(r"^unix:/+", "unix:///", parts.geturl())


def redact(url: str) -> str:
    """Return `url` with everything before its last `@`, which may be a password, replaced by `***`."""
    return re.sub(r"^([\w+.-]*:/*)?.*@", r"\1***@", url, flags=re.DOTALL)


def _split(url: str) -> tuple[SplitResult, tuple[tuple[str, int], ...], dict[str, str]]:
    """Return the parts with the first host, the other nodes of a cluster, and the options."""
    # `from None`, because urllib's messages may quote the password.
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _invalid(url, "is not a valid URL") from None
    if parts.scheme not in _SCHEMES:
        raise _invalid(url, f"must begin with one of {', '.join(f'{scheme}://' for scheme in _SCHEMES)}")
    # Otherwise the beginning of an unescaped password would be parsed, and shown, as the host.
    if parts.fragment or "@" in parts.path + parts.query:
        raise _invalid(url, "has an unescaped character: in user and password, write / ? # as %2F %3F %23")
    login, at, hosts = parts.netloc.rpartition("@")
    first, *others = (parts._replace(netloc=host) for host in hosts.split(","))
    try:
        # Reading the port checks it.
        _ = first.port
        nodes = tuple((other.hostname or "", other.port or _PORT) for other in others)
    except ValueError:
        raise _invalid(url, "has a port that is not a number up to 65535") from None
    if not all(host for host, _ in nodes):
        raise _invalid(url, "has an empty host beside others")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    return parts._replace(netloc=f"{login}{at}{first.netloc}"), nodes, options


def _check_target(url: str, parts: SplitResult, database: str | None, *, cluster: bool) -> None:
    if parts.scheme == "unix":
        if cluster or not parts.path.strip("/"):
            raise _invalid(url, "must name the path of a socket, and cannot be a cluster")
    else:
        if not parts.hostname:
            raise _invalid(url, "names no host")
        database = database if database is not None else unquote(parts.path).strip("/")
    if database and not database.isdecimal():
        raise _invalid(url, f"names the database {database!r}, which must be a number")
    if cluster and int(database or 0):
        raise _invalid(url, f"names the database {database}, and a cluster has only 0")


def _invalid(url: str, rule: str) -> Invalid:
    return Invalid(f"the Redis URL {redact(url)!r} {rule}", remedy=_REMEDY)
