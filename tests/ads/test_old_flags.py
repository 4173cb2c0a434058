"""Flags of an earlier interface are accepted and ignored."""

import httpx
import pytest

from tests.doubles.served import BRIEF, served_app


@pytest.mark.parametrize("query", ["", "?v=3"])
@pytest.mark.parametrize("flag", [{}, {"useToolCalling": False}])
async def test_flags_of_an_earlier_interface_change_nothing(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch, query: str, flag: dict[str, bool]
) -> None:
    """A61, A-R13."""
    for name in ("ENABLE_V3_TOOL_CALLING", "ENABLE_AGENTIC_LLM"):
        monkeypatch.setenv(name, "false")
    async with served_app(valkey_url) as http:
        assert isinstance(http, httpx.AsyncClient)
        body = {"adId": "ad-1", "brief": BRIEF, "provider": "offline", **flag}
        reply = await http.post(f"/api/ai/generate{query}", json=body)
    assert reply.status_code == 200, reply.text
    assert reply.json()["drafts"] == {"voices": "v1", "music": "v1", "sfx": "v1"}
