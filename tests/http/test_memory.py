"""Memory of a server whose streams carry data."""

import asyncio

import pytest

from bench.memory import LARGE, own_rss_mib, read_streams, serving


@pytest.mark.slow
def test_memory_stays_flat_when_streams_carry_data() -> None:
    """120 streams of 4 MB; a server that kept a third of them would end at more than twice the memory."""
    with serving() as server:
        asyncio.run(read_streams(server, LARGE, 20))
        before_mib = own_rss_mib(server)
        asyncio.run(read_streams(server, LARGE, 100))
        assert own_rss_mib(server) < 2 * before_mib
