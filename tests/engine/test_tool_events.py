"""The stream mode `tools` and LangChain's callbacks have our tool calls, too (A73)."""

import json
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler

from callsheet.tools.guard.outcome import ToolExecutionError
from tests.doubles.ad_model import SAY_DONE, brief_input, call, config
from tests.doubles.chat_double import Say


async def test_the_tools_stream_has_the_start_and_the_end_of_each_call(graph, model):
    music = call("music-call", "create_music_draft", adId="kopi", prompt="soft")
    model.script(Say(calls=[music, call("unknown-call", "make_coffee")]), SAY_DONE)
    options = {"context": {"provider": "openai"}, "stream_mode": "tools"}
    events: dict[str, list[Any]] = {"music-call": [], "unknown-call": []}
    async for event in graph.astream(brief_input(), config(), **options):
        events[event["tool_call_id"]].append(event)
    started, finished = events["music-call"]
    assert (started["event"], started["tool_name"]) == ("tool-started", "create_music_draft")
    assert started["input"] == {"adId": "kopi", "prompt": "soft"}
    assert finished["event"] == "tool-finished"
    assert finished["output"].tool_call_id == "music-call"
    assert json.loads(finished["output"].text)["versionId"] == "v1"
    started, failed = events["unknown-call"]
    assert (started["event"], started["input"]) == ("tool-started", {})
    assert failed["event"] == "tool-error"
    assert "make_coffee" in failed["message"]


class RecordingCallbacks(AsyncCallbackHandler):
    """Callbacks of an application, which keep the calls, results and errors that they get."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.results: list[tuple[str, str]] = []
        self.errors: list[tuple[str, str, str, str]] = []

    async def on_tool_start(self, serialized: dict[str, Any], input_str: str, **more: Any) -> None:
        self.calls.append((serialized["name"], more["inputs"]))

    async def on_tool_end(self, output: Any, **more: Any) -> None:
        self.results.append((output.name, json.loads(output.text)["versionId"]))

    async def on_tool_error(self, error: BaseException, **more: Any) -> None:
        assert isinstance(error, ToolExecutionError)
        self.errors.append((error.tool_name, error.tool_call_id, error.error_type, str(error)))


async def test_the_callbacks_of_an_application_get_calls_results_and_errors(graph, model):
    """C9, C12, C40."""
    music = call("music-call", "create_music_draft", adId="kopi", prompt="soft")
    model.script(Say(calls=[music, call("unknown-call", "make_coffee", strength=2)]), SAY_DONE)
    callbacks = RecordingCallbacks()
    await graph.ainvoke(brief_input(), {**config(), "callbacks": [callbacks]}, context={"provider": "openai"})
    assert sorted(callbacks.calls) == [
        ("create_music_draft", {"adId": "kopi", "prompt": "soft"}),
        ("make_coffee", {"strength": 2}),
    ]
    assert callbacks.results == [("create_music_draft", "v1")]
    assert callbacks.errors == [("make_coffee", "unknown-call", "unknown_tool", "Unknown tool: make_coffee")]
