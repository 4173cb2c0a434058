"""Calls of tools are told to whoever follows a run, as those of LangGraph's own tools are (A73)."""

import json
from typing import Any

from tests.ad_double import SAY_DONE, call, config, given
from tests.chat_double import Say


async def test_whoever_follows_the_tools_is_told_when_a_call_begins_and_ends(graph, model):
    model.script(
        Say(calls=[call("m", "create_music_draft", adId="kopi", prompt="soft"), call("1", "make_coffee")]),
        SAY_DONE,
    )
    options = {"context": {"provider": "openai"}, "stream_mode": "tools"}
    told: dict[str, list[Any]] = {"m": [], "1": []}
    async for event in graph.astream(given(), config(), **options):
        told[event["tool_call_id"]].append(event)
    began, ended = told["m"]
    assert (began["event"], began["tool_name"]) == ("tool-started", "create_music_draft")
    assert began["input"] == {"adId": "kopi", "prompt": "soft"}
    assert ended["event"] == "tool-finished"
    assert ended["output"].tool_call_id == "m"
    assert json.loads(ended["output"].text)["versionId"] == "v1"
    began, failed = told["1"]
    assert (began["event"], began["input"]) == ("tool-started", {})
    assert failed["event"] == "tool-error"
    assert "make_coffee" in failed["message"]
