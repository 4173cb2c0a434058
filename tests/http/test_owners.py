"""Owners: the same name of two owners stands for two separate things (X16)."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.state import owners
from callsheet.state.owners import LOCAL, storage_id
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.redis.scripts import execute_all
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

NAMES = st.text(min_size=1, max_size=40)


@given(one=st.tuples(NAMES, NAMES, NAMES), other=st.tuples(NAMES, NAMES, NAMES))
def test_storage_ids_are_equal_only_for_equal_owner_kind_and_name(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    if LOCAL not in {one[0], other[0]}:
        assert (storage_id(*one) == storage_id(*other)) == (one == other)


def test_a_storage_id_depends_on_owner_kind_and_name_separately() -> None:
    assert (
        len(
            {
                storage_id(*words)
                for words in [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a", "b", "d")]
            }
        )
        == 4
    )


def test_a_storage_id_is_the_plain_name_for_the_local_owner_and_a_uuid_for_others() -> None:
    assert storage_id(LOCAL, "ad", "ad-1") == "ad-1"
    assert str(uuid.UUID(storage_id("alice", "ad", "ad-1"))) == storage_id("alice", "ad", "ad-1")


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [("alice", True), ("ä" * 255, True), ("", False), ("x" * 256, False), ("a\n", False), (7, False)],
)
def test_an_owner_has_1_to_255_printable_characters(name: object, is_valid: bool) -> None:  # noqa: FBT001 -- a table
    assert owners.is_owner(name) is is_valid


async def test_two_owners_may_both_store_an_ad_with_the_same_id(storage: Storage) -> None:
    """ARCHITECTURE 5."""
    ads = {owner: Artefact(storage, "ad", "ad-1", owner) for owner in ("alice", "bob", LOCAL)}
    for owner, ad in ads.items():
        await ad.open(owner=owner, thread=f"{owner}'s", facts={})
        await ad.create_version(NewVersion("music", {"musicPrompt": owner}, owner, "batch"))
    for owner, ad in ads.items():
        (version,) = (await ad.stream("music")).versions
        assert (version.id, version.data, (await ad.meta())["owner"]) == ("v1", {"musicPrompt": owner}, owner)


async def test_only_the_owner_links_an_artefact_to_a_thread_and_only_once(storage: Storage) -> None:
    """X16: linking to an unknown thread does not create it."""
    await threads.bind(storage, Thread("t", "alice", "ad_creation", ""))
    for owner, artefact in (("bob", "ad:his"), ("alice", "ad:hers"), ("alice", "ad:another")):
        await execute_all(storage.redis, [threads.link_artefact_call("t", owner, artefact)])
    assert (await threads.get(storage, "t", "alice")).artefact == "ad:hers"
    await execute_all(storage.redis, [threads.link_artefact_call("other", "alice", "ad:hers")])
    assert not await threads.exists(storage, "other")
