"""Tool calls are streamed and reported to callbacks, as those of LangGraph's own tools are (A73)."""

import json
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler

from callsheet.tools.guard.outcome import ToolExecutionError
from tests.doubles.ad_model import SAY_DONE, brief_input, call, config
from tests.doubles.chat_double import Say


async def test_the_tools_stream_has_the_start_and_the_end_of_each_call(graph, model):
    model.script(
        Say(calls=[call("m", "create_music_draft", adId="kopi", prompt="soft"), call("1", "make_coffee")]),
        SAY_DONE,
    )
    options = {"context": {"provider": "openai"}, "stream_mode": "tools"}
    events: dict[str, list[Any]] = {"m": [], "1": []}
    async for event in graph.astream(brief_input(), config(), **options):
        events[event["tool_call_id"]].append(event)
    started, finished = events["m"]
    assert (started["event"], started["tool_name"]) == ("tool-started", "create_music_draft")
    assert started["input"] == {"adId": "kopi", "prompt": "soft"}
    assert finished["event"] == "tool-finished"
    assert finished["output"].tool_call_id == "m"
    assert json.loads(finished["output"].text)["versionId"] == "v1"
    started, failed = events["1"]
    assert (started["event"], started["input"]) == ("tool-started", {})
    assert failed["event"] == "tool-error"
    assert "make_coffee" in failed["message"]


class RecordingCallbacks(AsyncCallbackHandler):
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


async def test_a_hosts_callbacks_get_calls_results_and_errors(graph, model):
    """C9, C12, C40."""
    music_call, unknown_call = (
        call("m", "create_music_draft", adId="kopi", prompt="soft"),
        call("1", "make_coffee", strength=2),
    )
    model.script(Say(calls=[music_call, unknown_call]), SAY_DONE)
    callbacks = RecordingCallbacks()
    await graph.ainvoke(brief_input(), {**config(), "callbacks": [callbacks]}, context={"provider": "openai"})
    assert sorted(callbacks.calls) == [
        ("create_music_draft", {"adId": "kopi", "prompt": "soft"}),
        ("make_coffee", {"strength": 2}),
    ]
    assert sorted(callbacks.results) == [("create_music_draft", "v1"), ("error", "Unknown tool: make_coffee")]
    assert callbacks.failures == [("make_coffee", "1", "unknown_tool")]
