"""Version streams: counted, never overwritten, each effect once (A29-A35)."""

import asyncio
from dataclasses import replace

import pytest

from callsheet.state.errors import Conflict, Fenced, Forbidden, Missing
from callsheet.state.owners import LOCAL
from callsheet.state.versions import status, version_fields
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.artefacts.receipts import Claim, RecordedResult, StepFence, receipt_name
from callsheet.storage.redis import keys
from callsheet.storage.redis.scripts import execute_all
from tests.doubles.key_leaks import declaration_of

MUSIC = {"musicPrompt": "warm bossa nova", "duration": 30.0}


@pytest.fixture
def new_ad(storage):
    return Artefact(storage, "ad", "kopi-1", LOCAL)


@pytest.fixture
async def ad(new_ad):
    return await open_artefact(new_ad)


async def open_artefact(artefact):
    await artefact.open(owner="local", thread="t", facts={})
    return artefact


def music(prompt="warm bossa nova", batch="run-1", **more):
    return NewVersion("music", {"musicPrompt": prompt}, "llm", batch, result={"status": "draft"}, **more)


async def claim_step(ad, step="t|task|call_1", epoch=1, owner="local"):
    return await ad.claim(step, epoch=epoch, owner=owner, thread="t", facts={"language": "thai"})


async def test_versions_are_numbered_per_stream_from_v1(ad):
    """A30, A32: each stream counts alone."""
    first = await ad.create_version(music())
    second = await ad.create_version(music("brighter", "run-2"))
    voices = await ad.create_version(NewVersion("voices", {"voiceTracks": []}, "llm", "run-2"))
    assert (first["versionId"], second["versionId"], voices["versionId"]) == ("v1", "v2", "v1")


async def test_a_version_keeps_its_data_unchanged(ad):
    """A33, A38: text in any script, numbers and nesting are read back as they were written."""
    data = {
        "t": "สวัสดี 你好 Dzień dobry 🎧 \u0000",
        "n": [0.1, 1e-7, 12345678901234567, -3.0],
        "o": {"k": None},
    }
    await ad.create_version(NewVersion("music", data, "llm", "r"))
    assert (await ad.stream("music")).versions[0].data == data


async def test_a_version_has_its_time_author_and_parent(ad):
    """A31."""
    await ad.create_version(music())
    await ad.create_version(music("brighter", "run-2"))
    newest = (await ad.stream("music")).versions[-1]
    fields = version_fields(newest, newest)
    assert (fields["id"], fields["createdBy"], fields["parent"], fields["status"]) == (
        "v2",
        "llm",
        "v1",
        "draft",
    )
    assert fields["createdAt"].endswith("+00:00")


async def test_a_superseded_draft_is_frozen_and_drafts_of_one_run_stay_drafts(ad):
    """A-R17, A77."""
    for prompt, batch in (("a", "run-1"), ("b", "run-2"), ("c", "run-2")):
        await ad.create_version(music(prompt, batch))
    versions = (await ad.stream("music")).versions
    assert [status(version, versions[-1]) for version in versions] == ["frozen", "draft", "draft"]


async def test_the_active_version_is_a_pointer_that_a_person_sets(ad):
    """A34."""
    for prompt in ("a", "b"):
        await ad.create_version(music(prompt, prompt))
    assert (await ad.stream("music")).active is None
    await ad.activate("music", "v1")
    stream = await ad.stream("music")
    assert stream.active == "v1"
    assert stream.versions[-1].id == "v2"
    with pytest.raises(Missing, match="'v9'"):
        await ad.activate("music", "v9")


async def test_a_clone_names_its_parent(ad):
    for prompt in ("a", "b"):
        await ad.create_version(music(prompt, prompt))
    await ad.create_version(music("a", "by-hand", parent="v1"))
    assert (await ad.stream("music")).versions[-1].parent == "v1"


async def test_only_an_inactive_draft_can_be_deleted_and_its_number_is_not_reused(ad):
    for prompt in ("a", "b"):
        await ad.create_version(music(prompt, prompt))
    with pytest.raises(Conflict, match="frozen"):
        await ad.delete_draft("music", "v1")
    await ad.activate("music", "v2")
    with pytest.raises(Conflict, match="active"):
        await ad.delete_draft("music", "v2")
    await ad.activate("music", "v1")
    await ad.delete_draft("music", "v2")
    with pytest.raises(Missing):
        await ad.delete_draft("music", "v2")
    assert (await ad.create_version(music("c", "c")))["versionId"] == "v3"
    assert [version.id for version in (await ad.stream("music")).versions] == ["v1", "v3"]


async def test_a_step_tried_several_times_has_its_effect_once(ad):
    fence = await claim_step(ad)
    first = await ad.create_version(music(), fence)
    again = await ad.create_version(music("something else"), fence)
    later = await claim_step(ad, epoch=2)
    assert first == again == {"versionId": "v1", "status": "draft"}
    assert later == RecordedResult(first)
    assert len((await ad.stream("music")).versions) == 1


async def test_twenty_concurrent_attempts_create_one_version(ad):
    async def attempt():
        fence = await claim_step(ad)
        if isinstance(fence, RecordedResult):
            return fence.result
        try:
            return await ad.create_version(music(), fence)
        except Fenced:
            return None

    results = [result for result in await asyncio.gather(*(attempt() for _ in range(20))) if result]
    assert len((await ad.stream("music")).versions) == 1
    assert all(result["versionId"] == "v1" for result in results)


async def test_a_later_claim_refuses_the_write_of_an_earlier_one(ad):
    old = await claim_step(ad, epoch=1)
    new = await claim_step(ad, epoch=2)
    with pytest.raises(Fenced, match="late write"):
        await ad.create_version(music("zombie"), old)
    assert (await ad.create_version(music(), new))["versionId"] == "v1"


async def test_an_earlier_epoch_cannot_claim_a_step_of_a_later_one(ad):
    await claim_step(ad, epoch=5)
    with pytest.raises(Fenced, match="taken over"):
        await claim_step(ad, epoch=4)


async def test_a_revoked_fence_refuses_writes(ad):
    fence = await claim_step(ad)
    await ad.revoke(fence)
    with pytest.raises(Fenced):
        await ad.create_version(music(), fence)
    assert (await ad.stream("music")).newest() is None


async def test_revoking_after_the_effect_returns_its_result(ad):
    fence = await claim_step(ad)
    result = await ad.create_version(music(), fence)
    assert await ad.revoke(fence) == RecordedResult(result)


async def test_revoking_an_old_fence_twice_leaves_the_newest_one_valid(ad):
    old = await claim_step(ad)
    await claim_step(ad)
    new = await claim_step(ad)
    for _ in range(2):
        with pytest.raises(Fenced):
            await ad.revoke(old)
    assert (await ad.create_version(music(), new))["versionId"] == "v1"


async def test_an_artefact_belongs_to_the_owner_of_its_first_claim(new_ad):
    await claim_step(new_ad, owner="ana")
    with pytest.raises(Forbidden, match="someone else"):
        await claim_step(new_ad, step="t|task|call_2", owner="bob")
    assert (await new_ad.meta())["owner"] == "ana"


async def test_facts_are_set_by_the_first_claim_and_changed_by_set_facts_only(ad):
    await claim_step(ad)
    await ad.claim("t|x|y", epoch=1, owner="local", thread="t", facts={"language": "polish", "market": "PL"})
    assert {"language": "thai", "market": "PL"}.items() <= (await ad.meta()).items()
    await ad.set_facts({"language": "polish"})
    assert (await ad.meta())["language"] == "polish"


async def test_receipts_of_a_thread_and_step_are_listed_for_all_tasks(ad):
    for task in ("task-a", "task-b"):
        fence = await claim_step(ad, receipt_name("t|1", task, "call_1"))
        assert isinstance(fence, StepFence)
        await ad.create_version(music(task), fence)
    await ad.create_version(music(), replace(await claim_step(ad, receipt_name("other", "task-a", "call_1"))))
    results = await ad.thread_receipts("t|1", "call_1")
    assert sorted(result["versionId"] for result in results) == ["v1", "v2"]


async def test_streams_are_read_together_and_an_unwritten_one_is_empty(ad):
    await ad.create_version(music())
    streams = await ad.streams(["music", "sfx"])
    assert streams["music"].find("v1") is not None
    assert streams["music"].find("v2") is None
    assert streams["sfx"].newest() is None


@pytest.mark.parametrize("artefact_id", ["a{b}c", "%", "x:y", "*", "สวัสดี", "🎧", "a b", "}{"])
async def test_artefacts_with_unusual_ids_do_not_collide(storage, artefact_id):
    for name in (artefact_id, "plain"):
        await (await open_artefact(Artefact(storage, "ad", name, LOCAL))).create_version(music(name))
    stream = await Artefact(storage, "ad", artefact_id, LOCAL).stream("music")
    assert [version.data["musicPrompt"] for version in stream.versions] == [artefact_id]
    assert declaration_of(keys.versions("ad", artefact_id, "music"))


async def test_an_artefact_is_opened_once_for_one_owner_and_one_thread(new_ad):
    """A-R14: two first requests under different conversations cannot both have it."""
    ad = new_ad
    await ad.open(owner="ana", thread="t", facts={"language": "thai"})
    await ad.open(owner="ana", thread="t", facts={"language": "polish", "market": "PL"})
    assert {"thread": "t", "language": "thai", "market": "PL"}.items() <= (await ad.meta()).items()
    for owner, thread in (("bob", "t"), ("ana", "u")):
        with pytest.raises(Missing, match="no conversation"):
            await ad.open(owner=owner, thread=thread, facts={"market": "XX"})
    assert (await ad.meta())["market"] == "PL"


async def test_a_locked_stream_refuses_every_new_version(ad):
    """The script that writes checks the lock, so that both are one step."""
    await ad.create_version(music())
    assert await ad.lock("music", "alice")
    assert not await ad.lock("music", "bob")
    fence = await claim_step(ad)
    for held in (fence, None):
        with pytest.raises(Forbidden, match="locked"):
            await ad.create_version(music("brighter"), held)
    locks = await ad.locks()
    assert locks["music"]["by"] == "alice"
    assert locks["music"]["at_ms"] > 1_700_000_000_000
    assert await ad.unlock("music")
    assert not await ad.unlock("music")
    assert (await ad.create_version(music("brighter"), fence))["versionId"] == "v2"


async def test_a_version_with_an_outdated_expected_head_is_refused(ad):
    empty = await ad.stream_head("music")
    assert (empty.newest, empty.active, empty.locked) == (None, None, frozenset())
    await ad.create_version(music(expected_head=empty))
    with pytest.raises(Conflict, match="changed meanwhile"):
        await ad.create_version(music("brighter", expected_head=empty))
    head = await ad.stream_head("music")
    await ad.lock("track-0", "alice")
    with pytest.raises(Conflict, match="changed meanwhile"):
        await ad.create_version(music("brighter", expected_head=head))
    await ad.activate("music", "v1")
    head = await ad.stream_head("music")
    assert (head.newest, head.active) == (await ad.version("music", "v1"), "v1")
    assert head.locked == {"track-0"}
    assert (await ad.create_version(music("brighter", expected_head=head)))["versionId"] == "v2"
    with pytest.raises(Missing, match="'v9'"):
        await ad.version("music", "v9")


async def test_concurrent_edits_build_on_each_other_and_none_is_lost(ad):
    async def add(word):
        while True:
            head = await ad.stream_head("music")
            words = head.newest.data["musicPrompt"] if head.newest else ""
            try:
                return await ad.create_version(music(f"{words} {word}", expected_head=head))
            except Conflict:
                continue

    await asyncio.gather(*(add(f"w{i}") for i in range(8)))
    newest = (await ad.stream_head("music")).newest
    assert newest.id == "v8"
    assert sorted(newest.data["musicPrompt"].split()) == [f"w{i}" for i in range(8)]


async def test_the_fence_for_another_try_refuses_the_write_of_the_first_try(ad):
    first = await claim_step(ad)
    again = await ad.revoke(first, idle=False)
    with pytest.raises(Fenced):
        await ad.create_version(music("late"), first)
    assert (await ad.create_version(music(), again))["versionId"] == "v1"


async def test_a_revocation_sent_twice_has_the_same_result(ad):
    fence = await claim_step(ad)
    assert await ad.revoke(fence) == await ad.revoke(fence)


async def test_a_claim_for_a_locked_stream_is_refused(ad):
    await claim_step(ad, step="t|task|before")
    await ad.lock("music", "alice")
    claim = Claim("t|task|other", 1, "local", "t", writes=("voices", "music"))
    (answer,) = await execute_all(ad._redis, [ad.claim_call(claim)])
    with pytest.raises(Forbidden, match="'music' of this ad is locked"):
        ad.read_claim(claim, answer)
