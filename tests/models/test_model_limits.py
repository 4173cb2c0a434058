"""Limits of a vendor that all processes share (X14)."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from callsheet.state.errors import Limited
from callsheet.storage import Storage, connect
from callsheet.storage.spending import VendorLimits, admit_call, release_call
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.served import GENERATE, app_client, started_app


async def test_the_limit_of_concurrent_calls_holds_across_processes(
    storage: Storage, valkey_url: str
) -> None:
    limits = VendorLimits("Acme", calls=2, patience_s=0.3)
    async with connect(valkey_url) as other:
        await admit_call(storage, limits, "a", 10, 60)
        await admit_call(other, limits, "b", 10, 60)
        await admit_call(other, limits, "b", 10, 60)
        with pytest.raises(Limited, match="Acme is at its limit of 2 calls at once"):
            await admit_call(storage, limits, "c", 10, 60)
        await release_call(other, limits, "a", 10, 10)
        await admit_call(storage, limits, "c", 10, 60)
        await admit_call(storage, VendorLimits("Other", calls=2), "d", 10, 60)


async def test_a_waiting_call_starts_when_another_ends_or_its_lease_expires(storage: Storage) -> None:
    limits = VendorLimits("Acme", calls=1, patience_s=20)
    await admit_call(storage, limits, "a", 10, 60)
    waiting = asyncio.create_task(admit_call(storage, limits, "b", 10, 0.2))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await release_call(storage, limits, "a", 10, 10)
    await waiting
    await admit_call(storage, limits, "c", 10, 60)


async def test_tokens_refill_over_a_minute_and_are_corrected_by_the_real_usage(storage: Storage) -> None:
    limits = VendorLimits("Acme", tokens_per_minute=60_000, patience_s=0)
    await admit_call(storage, limits, "a", 59_900, 60)
    with pytest.raises(Limited, match="60000 tokens a minute"):
        await admit_call(storage, limits, "b", 5_000, 60)
    await release_call(storage, limits, "a", 59_900, 20_000)
    await release_call(storage, limits, "a", 59_900, 20_000)
    await admit_call(storage, limits, "b", 35_000, 60)
    patient = VendorLimits("Acme", tokens_per_minute=60_000, patience_s=20)
    began = time.monotonic()
    await admit_call(storage, patient, "c", 7_000, 60)
    assert time.monotonic() - began > 0.5, "a thousand tokens a second"


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    with ChatDouble() as one:
        for name, value in {**one.environ, "OPENAI_CONCURRENCY": "1", "OPENAI_PATIENCE_S": "0"}.items():
            monkeypatch.setenv(name, value)
        yield one


async def test_a_call_over_the_limit_is_refused_with_429(
    valkey_url: str, storage: Storage, double: ChatDouble
) -> None:
    limits = VendorLimits("OpenAI", calls=1)
    await admit_call(storage, limits, "another process", 10, 60)
    async with started_app(valkey_url) as app, app_client(app) as http:
        refused = await http.post("/api/ai/generate", json={**GENERATE, "provider": "openai"})
        assert refused.status_code == 429
        assert "limit of 1 calls at once" in refused.text
        await release_call(storage, limits, "another process", 10, 10)
        double.script(Say("What is it called?"), Say("What is it called?"))
        reply = await http.post("/api/ai/generate", json={**GENERATE, "provider": "openai"})
        assert reply.status_code == 200, reply.text
