"""Eighteen turns with each workflow: the brief is kept, and most input is cached (A65-A67, A-R12)."""

import pytest

from callsheet.storage import Storage
from tests.models.long_conversations import FACTS, TALKS, TURNS, Partner, Sent, play


@pytest.fixture
async def sent(request: pytest.FixtureRequest, opened: Storage, monkeypatch: pytest.MonkeyPatch) -> Sent:
    with Partner() as partner:
        for name, value in partner.environ.items():
            monkeypatch.setenv(name, value)
        return await play(TALKS[request.param], opened, partner)


@pytest.mark.parametrize("sent", [*TALKS], indirect=True)
@pytest.mark.slow
async def test_eighteen_turns_keep_the_brief_and_most_of_the_prefix(sent: Sent):
    """A65-A67: facts of turn 1 in turn 18, two changes of the prefix at most, 70 % of turns 2-10 cached."""
    assert len(sent.turns) == TURNS
    last = sent.turns[-1][-1]
    assert [fact for fact in FACTS if fact not in last] == []
    assert sent.compactions <= 2
    assert sent.cached_share(slice(1, 10)) >= 0.7
    assert sent.new_tokens(slice(0, 5)) <= 8_000


@pytest.mark.parametrize("sent", ["campaign_search"], indirect=True)
@pytest.mark.slow
async def test_a_conversation_about_campaigns_stays_small(sent: Sent):
    """A66: results of earlier turns are left out, so that a request of turn 6 has at most 6,000 tokens."""
    assert sent.largest(5) <= 6_000
    assert sent.largest(5) < sent.largest(1) + 1_000
