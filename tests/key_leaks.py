"""Which keys on a server are not as storage/keys.py declares them."""

from collections.abc import Callable, Iterator

from redis import Redis

from storage import keys

Declared = Callable[[str], keys.Key | None]


def leaks(url: str, declared: Declared = keys.declared) -> list[str]:
    """A sentence for each key, in any database of the server, that has no declaration or contradicts it."""
    server_url = url.partition("?")[0]
    with Redis.from_url(server_url) as server:
        databases = [str(name).removeprefix("db") for name in server.info("keyspace")]
    return [leak for number in databases for leak in _leaks(f"{server_url}?db={number}", declared)]


def _leaks(url: str, declared: Declared) -> Iterator[str]:
    with Redis.from_url(url) as server:
        for key in server.scan_iter(count=1000):
            kind, left_ms = server.type(key).decode(), int(server.pttl(key))
            # A key that expired between the scan and the question is none.
            if kind != "none" and left_ms != -2:
                yield from _faults(key.decode(errors="backslashreplace"), kind, left_ms, declared)


def _faults(name: str, kind: str, left_ms: int, declared: Declared) -> Iterator[str]:
    declaration = declared(name)
    if declaration is None:
        yield f"{name!r} is declared nowhere in storage/keys.py"
        return
    if declaration.type not in {kind, "any"}:
        yield f"{name!r} is a {kind}, declared as a {declaration.type}"
    if not _lives_as(declaration.lifetime, left_ms):
        expiry = "does not expire" if left_ms < 0 else f"expires in {left_ms / 1000:g} s"
        yield f"{name!r} {expiry}, declared to live {declaration.lifetime}"


def _lives_as(lifetime: keys.Lifetime, left_ms: int) -> bool:
    if lifetime == "chosen":
        return True
    if lifetime == "forever":
        return left_ms < 0
    # Zero is a key in its last millisecond.
    return 0 <= left_ms <= lifetime * 1000
