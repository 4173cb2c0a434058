"""X3, X4: LangGraph's own conformance suite on the saver, on a server without modules."""

from collections.abc import AsyncIterator

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.report import CapabilityReport

from callsheet.storage.checkpoints import RedisSaver

TESTS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}
"""The number of tests of the suite for each capability, so that a skipped one is noticed."""


async def run_suite(url: str, capability: str) -> CapabilityReport:
    async def savers() -> AsyncIterator[RedisSaver]:
        async with RedisSaver.from_url(url) as saver:
            yield saver

    return await validate(checkpointer_test(name="RedisSaver")(savers), capabilities={capability})


@pytest.mark.parametrize("capability", TESTS)
async def test_the_saver_passes_langgraphs_conformance_suite(valkey_url, capability):
    result = (await run_suite(valkey_url, capability)).results[capability]

    assert result.failures == []
    assert result.tests_passed == TESTS[capability]
