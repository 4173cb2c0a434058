"""Kill -9 at every await point of calls with effects: on resuming, each effect is there exactly once.

Points are callbacks of the event loop, counted from the first call of a tool until what all of them did is
checkpointed and answered. The walk goes through all of them with `--long`, else through a seeded few.
"""

import signal

import pytest

from callsheet.state.owners import LOCAL
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import connect
from tests.doubles.killing import sample_points

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(1800)]
STREAMS = ("voices", "music", "sfx")
SAMPLED = 3


class Caller:
    """Runs turns of the graph in processes of their own, one after the other."""

    def __init__(self, warm_parent, url):
        self.warm, self.url = warm_parent, url

    def turn(self, thread, run="run-1", at=0, **more):
        """Points passed, and the exit code of the process."""
        return self.warm.returned(
            "tests.doubles.warm_turn:turn", url=self.url, thread=thread, run=run, at=at, **more
        )


@pytest.fixture
def caller(warm_parent, valkey_url):
    return Caller(warm_parent, valkey_url)


async def made(url, thread):
    async with connect(url) as storage:
        streams = await Artefact(storage, "ad", thread, LOCAL).streams(STREAMS)
    return {name: len(stream.versions) for name, stream in streams.items()}


ONCE = dict.fromkeys(STREAMS, 1)


async def test_a_worker_killed_at_any_await_of_a_call_repeats_no_effect(caller, valkey_url, request):
    """C-R6, C-R10, ARCHITECTURE 3."""
    count, code = caller.turn("dry-run")
    assert code == 0
    assert count >= 100, "the walk must have somewhere to go"
    for at in sample_points(count, SAMPLED, seed=5, all_points=request.config.getoption("--long")):
        thread = f"killed-{at}"
        _, code = caller.turn(thread, at=at)
        # What arrives together varies a little, so the last points may come too late.
        assert code == -signal.SIGKILL or at > count * 0.8, (at, count)
        _, code = caller.turn(thread)
        assert code == 0
        assert await made(valkey_url, thread) == ONCE, at


async def test_without_its_receipt_an_effect_would_be_made_again(caller, valkey_url):
    """That the walk can fail: with the receipts taken out between death and resumption it finds two."""
    count, _ = caller.turn("dry")
    for at in range(count // 2, count, count // 16):
        thread = f"forgotten-{at}"
        _, code = caller.turn(thread, at=at)
        if code != -signal.SIGKILL:
            continue
        async with connect(valkey_url) as storage:
            lost = await storage.redis.delete(keys.receipts("ad", thread))
        caller.turn(thread)
        if lost and await made(valkey_url, thread) != ONCE:
            return
    pytest.fail("no effect was made twice, so the walk would not notice one")


async def test_a_deliberate_fork_makes_a_second_effect(caller, valkey_url):
    """ARCHITECTURE 3: another task id, another receipt."""
    caller.turn("forked")
    assert await made(valkey_url, "forked") == ONCE
    _, code = caller.turn("forked", fork="tool_executor")
    assert code == 0
    assert max((await made(valkey_url, "forked")).values()) == 2
