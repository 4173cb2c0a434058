"""Calls of tools are told to whoever follows a run, as those of LangGraph's own tools are (A73)."""

import json
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler

from callsheet.tools.guard.outcome import ToolExecutionError
from tests.doubles.ad_model import SAY_DONE, brief_input, call, config
from tests.doubles.chat_double import Say


async def test_whoever_follows_the_tools_is_told_when_a_call_begins_and_ends(graph, model):
    model.script(
        Say(calls=[call("m", "create_music_draft", adId="kopi", prompt="soft"), call("1", "make_coffee")]),
        SAY_DONE,
    )
    options = {"context": {"provider": "openai"}, "stream_mode": "tools"}
    told: dict[str, list[Any]] = {"m": [], "1": []}
    async for event in graph.astream(brief_input(), config(), **options):
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


class Followed(AsyncCallbackHandler):
    """A host's own callbacks."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.results: list[tuple[str, str]] = []
        self.failures: list[tuple[str, str, str]] = []

    async def on_tool_start(self, serialized: dict[str, Any], input_str: str, **more: Any) -> None:
        self.calls.append((serialized["name"], more["inputs"]))

    async def on_tool_end(self, output: Any, **more: Any) -> None:
        self.results.append((output.name, json.loads(output.text)["versionId"]))

    async def on_tool_error(self, error: BaseException, **more: Any) -> None:
        assert isinstance(error, ToolExecutionError)
        self.results.append(("error", str(error)))
        self.failures.append((error.tool_name, error.tool_call_id, error.error_type))


async def test_a_host_has_callbacks_for_calls_and_their_results(graph, model):
    """C9, C12, C40."""
    drawn, lost = (
        call("m", "create_music_draft", adId="kopi", prompt="soft"),
        call("1", "make_coffee", strength=2),
    )
    model.script(Say(calls=[drawn, lost]), SAY_DONE)
    host = Followed()
    await graph.ainvoke(brief_input(), {**config(), "callbacks": [host]}, context={"provider": "openai"})
    assert sorted(host.calls) == [
        ("create_music_draft", {"adId": "kopi", "prompt": "soft"}),
        ("make_coffee", {"strength": 2}),
    ]
    assert sorted(host.results) == [("create_music_draft", "v1"), ("error", "Unknown tool: make_coffee")]
    assert host.failures == [("make_coffee", "1", "unknown_tool")]
