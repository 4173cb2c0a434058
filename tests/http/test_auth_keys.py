"""API keys: made, kept as a hash, checked, expired, revoked (X16)."""

import asyncio

import pytest

from callsheet.server.engine.permissions import implied_permissions
from callsheet.server.http import api_keys
from callsheet.state.errors import Invalid, Missing, Unauthenticated
from callsheet.storage import Storage
from callsheet.storage import api_keys as kept
from callsheet.storage.api_keys import StoredKey
from tests.doubles.waiting import eventually


async def record(storage: Storage, key_id: str) -> StoredKey:
    found = await kept.find(storage, key_id)
    assert found is not None
    return found


async def test_a_key_names_its_owner_and_what_it_allows(storage: Storage) -> None:
    made = await api_keys.create_key(storage, "alice", "write", name="laptop")
    found = await api_keys.authenticate_key(storage, made.text)
    assert (found.id, found.owner, found.permissions, found.name) == (
        made.id,
        "alice",
        ("read", "write"),
        "laptop",
    )
    assert (found.status, found.expires_ms, found.revoked_ms) == ("active", None, None)


async def test_nothing_in_storage_holds_the_key(storage: Storage) -> None:
    made = await api_keys.create_key(storage, "alice", "read")
    secret = made.text.removeprefix(f"cs_{made.id}_")
    records = [
        await storage.redis.hgetall(f"apikey:{{{made.id}}}"),
        await storage.redis.zrange("apikeys", 0, -1),
    ]
    assert made.id in str(records)
    assert secret not in str(records)
    assert made.text not in str(records)
    assert secret not in repr(made)


async def test_keys_are_never_the_same_and_have_32_random_bytes(storage: Storage) -> None:
    made = await asyncio.gather(*(api_keys.create_key(storage, "alice", "read") for _ in range(20)))
    secrets = {one.text.split("_", 2)[2] for one in made}
    assert len(secrets) == 20
    assert {len(secret) for secret in secrets} == {43}


@pytest.mark.parametrize(
    "changed",
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
async def test_a_text_that_is_not_the_key_is_not_known(storage: Storage, changed) -> None:
    made = await api_keys.create_key(storage, "alice", "read")
    with pytest.raises(Unauthenticated) as refused:
        await api_keys.authenticate_key(storage, changed(made.text))
    assert refused.value.message == "the API key is unknown"


async def test_a_revoked_key_is_worthless_at_once_and_revoking_twice_is_safe(storage: Storage) -> None:
    made = await api_keys.create_key(storage, "alice", "read")
    await kept.revoke(storage, made.id)
    first = (await record(storage, made.id)).revoked_ms
    await kept.revoke(storage, made.id)
    assert (await record(storage, made.id)).revoked_ms == first
    with pytest.raises(Unauthenticated, match="revoked"):
        await api_keys.authenticate_key(storage, made.text)


async def test_a_key_that_has_expired_says_so_only_to_who_has_it(storage: Storage) -> None:
    made = await api_keys.create_key(storage, "alice", "read", lifetime_s=0.001)

    async def expired() -> bool:
        return (await record(storage, made.id)).status == "expired"

    await eventually(expired, "the key to expire")
    with pytest.raises(Unauthenticated, match="expired"):
        await api_keys.authenticate_key(storage, made.text)
    with pytest.raises(Unauthenticated, match="unknown"):
        await api_keys.authenticate_key(storage, made.text[:-3] + "___")


async def test_revoking_what_is_not_there_is_an_error(storage: Storage) -> None:
    with pytest.raises(Missing, match="there is no key 'abc'"):
        await kept.revoke(storage, "abc")


async def test_keys_are_listed_oldest_first_and_by_owner(storage: Storage) -> None:
    made = [await api_keys.create_key(storage, owner, "read") for owner in ("alice", "bob", "alice")]
    assert {key.id for key in await kept.list_keys(storage)} == {one.id for one in made}
    assert {key.id for key in await kept.list_keys(storage, "alice")} == {made[0].id, made[2].id}
    created = [key.created_ms for key in await kept.list_keys(storage)]
    assert created == sorted(created)


async def test_keeping_a_key_twice_changes_nothing(storage: Storage) -> None:
    """A command whose answer was lost is sent again."""
    new = kept.NewKey("abc", "hash", "alice", ("read",))
    await kept.create(storage, new)
    before = await record(storage, "abc")
    await kept.create(storage, new)
    after = await record(storage, "abc")
    assert (before.created_ms, len(await kept.list_keys(storage))) == (after.created_ms, 1)


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
async def test_a_key_that_cannot_be_is_refused(
    storage: Storage, owner: str, permission: str, lifetime_s: float, rule: str
) -> None:
    with pytest.raises(Invalid, match=rule):
        await api_keys.create_key(storage, owner, permission, lifetime_s=lifetime_s)
    assert await kept.list_keys(storage) == []


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ((), ()),
        (("read",), ("read",)),
        (("write",), ("read", "write")),
        (("admin", "read"), ("read", "write", "admin")),
        (("openid", "profile"), ()),
        (("openid", "read"), ("read",)),
    ],
)
def test_a_permission_includes_those_before_it(given: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert implied_permissions(*given) == found
