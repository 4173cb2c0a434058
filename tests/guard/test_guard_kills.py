"""Kill -9 at every await point of calls with effects: on resuming, each effect is there exactly once.

Points are callbacks of the event loop, counted from the first call of a tool until the results of all are
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
SAMPLE_SIZE = 3


class TurnRunner:
    """Runs turns of the graph in processes of their own, one after the other."""

    def __init__(self, warm_parent, url):
        self.warm, self.url = warm_parent, url

    def run_turn(self, thread, run="run-1", at=0, **more):
        """Run a turn; return the points that it passed and the exit code of its process."""
        return self.warm.call(
            "tests.doubles.warm_turn:turn", url=self.url, thread=thread, run=run, at=at, **more
        )


@pytest.fixture
def turn_runner(warm_parent, valkey_url):
    return TurnRunner(warm_parent, valkey_url)


async def count_versions(url, thread):
    async with connect(url) as storage:
        streams = await Artefact(storage, "ad", thread, LOCAL).streams(STREAMS)
    return {name: len(stream.versions) for name, stream in streams.items()}


ONCE = dict.fromkeys(STREAMS, 1)


async def test_a_worker_killed_at_any_await_of_a_call_repeats_no_effect(turn_runner, valkey_url, request):
    """C-R6, C-R10, ARCHITECTURE 3."""
    count, code = turn_runner.run_turn("dry-run")
    assert code == 0
    assert count >= 100, "the walk must have somewhere to go"
    for at in sample_points(count, SAMPLE_SIZE, seed=5, all_points=request.config.getoption("--long")):
        thread = f"killed-{at}"
        _, code = turn_runner.run_turn(thread, at=at)
        # What arrives together varies a little, so the last points may come too late.
        assert code == -signal.SIGKILL or at > count * 0.8, (at, count)
        _, code = turn_runner.run_turn(thread)
        assert code == 0
        assert await count_versions(valkey_url, thread) == ONCE, at


async def test_an_effect_whose_receipt_was_deleted_happens_twice(turn_runner, valkey_url):
    """The walk can fail: with the receipts deleted between death and resumption it finds two effects."""
    count, _ = turn_runner.run_turn("dry")
    for at in range(count // 2, count, max(1, count // 32)):
        thread = f"forgotten-{at}"
        _, code = turn_runner.run_turn(thread, at=at)
        if code != -signal.SIGKILL:
            continue
        async with connect(valkey_url) as storage:
            lost = await storage.redis.delete(keys.receipts("ad", thread))
        turn_runner.run_turn(thread)
        if lost and await count_versions(valkey_url, thread) != ONCE:
            return
    pytest.fail("no effect was made twice, so the walk would not notice one")


async def test_a_deliberate_fork_makes_a_second_effect(turn_runner, valkey_url):
    """ARCHITECTURE 3: another task id, another receipt."""
    turn_runner.run_turn("forked")
    assert await count_versions(valkey_url, "forked") == ONCE
    _, code = turn_runner.run_turn("forked", fork="tool_executor")
    assert code == 0
    assert max((await count_versions(valkey_url, "forked")).values()) == 2
