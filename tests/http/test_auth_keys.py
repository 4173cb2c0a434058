"""API keys: created, stored as a hash, verified, expired, revoked (X16)."""

import asyncio

import pytest

from callsheet.server.engine.permissions import implied_permissions
from callsheet.server.http import api_keys
from callsheet.state.errors import Invalid, Missing, Unauthenticated
from callsheet.storage import Storage
from callsheet.storage import api_keys as stored_keys
from callsheet.storage.api_keys import StoredKey
from tests.doubles.waiting import eventually


async def stored_key(storage: Storage, key_id: str) -> StoredKey:
    key = await stored_keys.find(storage, key_id)
    assert key is not None
    return key


async def test_a_key_gives_its_owner_permissions_and_name(storage: Storage) -> None:
    created = await api_keys.create_key(storage, "alice", "write", name="laptop")
    key = await api_keys.authenticate_key(storage, created.text)
    assert (key.id, key.owner, key.permissions, key.name) == (
        created.id,
        "alice",
        ("read", "write"),
        "laptop",
    )
    assert (key.status, key.expires_ms, key.revoked_ms) == ("active", None, None)


async def test_storage_and_repr_never_contain_the_secret(storage: Storage) -> None:
    created = await api_keys.create_key(storage, "alice", "read")
    secret = created.text.removeprefix(f"cs_{created.id}_")
    records = [
        await storage.redis.hgetall(f"apikey:{{{created.id}}}"),
        await storage.redis.zrange("apikeys", 0, -1),
    ]
    assert created.id in str(records)
    assert secret not in str(records)
    assert created.text not in str(records)
    assert secret not in repr(created)


async def test_every_key_has_its_own_32_random_bytes(storage: Storage) -> None:
    created = await asyncio.gather(*(api_keys.create_key(storage, "alice", "read") for _ in range(20)))
    secrets = {key.text.split("_", 2)[2] for key in created}
    assert len(secrets) == 20
    assert {len(secret) for secret in secrets} == {43}


@pytest.mark.parametrize(
    "change",
    [
        lambda _: "",
        lambda text: text[:-1],
        lambda text: text + "x",
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text.replace("cs_", "CS_"),
        lambda text: f"cs_{'0' * 12}_{text[16:]}",
        lambda text: text[:16] + "ä" * 43,
        lambda text: f"{text}\n",
        lambda text: "cs_{x}:meta_" + text[16:],
    ],
)
async def test_a_text_that_differs_from_the_key_is_refused(storage: Storage, change) -> None:
    created = await api_keys.create_key(storage, "alice", "read")
    with pytest.raises(Unauthenticated) as caught:
        await api_keys.authenticate_key(storage, change(created.text))
    assert caught.value.message == "the API key is unknown"


async def test_a_revoked_key_is_refused_at_once_and_revoking_twice_is_safe(storage: Storage) -> None:
    created = await api_keys.create_key(storage, "alice", "read")
    await stored_keys.revoke(storage, created.id)
    revoked_ms = (await stored_key(storage, created.id)).revoked_ms
    await stored_keys.revoke(storage, created.id)
    assert (await stored_key(storage, created.id)).revoked_ms == revoked_ms
    with pytest.raises(Unauthenticated, match="revoked"):
        await api_keys.authenticate_key(storage, created.text)


async def test_only_the_holder_of_an_expired_key_learns_that_it_has_expired(storage: Storage) -> None:
    created = await api_keys.create_key(storage, "alice", "read", lifetime_s=0.001)

    async def is_expired() -> bool:
        return (await stored_key(storage, created.id)).status == "expired"

    await eventually(is_expired, "the key to expire")
    with pytest.raises(Unauthenticated, match="expired"):
        await api_keys.authenticate_key(storage, created.text)
    with pytest.raises(Unauthenticated, match="unknown"):
        await api_keys.authenticate_key(storage, created.text[:-3] + "___")


async def test_revoking_an_unknown_key_is_an_error(storage: Storage) -> None:
    with pytest.raises(Missing, match="there is no key 'abc'"):
        await stored_keys.revoke(storage, "abc")


async def test_keys_are_listed_oldest_first_and_by_owner(storage: Storage) -> None:
    keys = [await api_keys.create_key(storage, owner, "read") for owner in ("alice", "bob", "alice")]
    assert {key.id for key in await stored_keys.list_keys(storage)} == {each.id for each in keys}
    assert {key.id for key in await stored_keys.list_keys(storage, "alice")} == {keys[0].id, keys[2].id}
    times_ms = [key.created_ms for key in await stored_keys.list_keys(storage)]
    assert times_ms == sorted(times_ms)


async def test_storing_the_same_key_twice_changes_nothing(storage: Storage) -> None:
    """A command whose reply was lost is sent again."""
    new = stored_keys.NewKey("abc", "hash", "alice", ("read",))
    await stored_keys.create(storage, new)
    before = await stored_key(storage, "abc")
    await stored_keys.create(storage, new)
    after = await stored_key(storage, "abc")
    assert (before.created_ms, len(await stored_keys.list_keys(storage))) == (after.created_ms, 1)


@pytest.mark.parametrize(
    ("owner", "permission", "lifetime_s", "rule"),
    [
        ("", "read", 0, "owner ''"),
        ("x" * 256, "read", 0, "1 to 255"),
        ("a\x00b", "read", 0, "printable"),
        ("alice", "root", 0, "'root'"),
        ("alice", "read", -1, "-1"),
        ("alice", "read", float("nan"), "nan"),
    ],
)
async def test_a_key_with_an_invalid_owner_permission_or_lifetime_is_refused(
    storage: Storage, owner: str, permission: str, lifetime_s: float, rule: str
) -> None:
    with pytest.raises(Invalid, match=rule):
        await api_keys.create_key(storage, owner, permission, lifetime_s=lifetime_s)
    assert await stored_keys.list_keys(storage) == []


@pytest.mark.parametrize(
    ("scopes", "permissions"),
    [
        ((), ()),
        (("read",), ("read",)),
        (("write",), ("read", "write")),
        (("admin", "read"), ("read", "write", "admin")),
        (("openid", "profile"), ()),
        (("openid", "read"), ("read",)),
    ],
)
def test_a_permission_includes_the_lower_ones(scopes: tuple[str, ...], permissions: tuple[str, ...]) -> None:
    assert implied_permissions(*scopes) == permissions
