"""LangGraph's two React hooks in a browser against our server.

`legacy` is the hook of `@langchain/langgraph-sdk` 1.15, on runs; `current` that of `@langchain/react` 1.1, on
commands and events; `socket` the latter over a web socket. All scenarios are played once, in one browser.
"""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import pytest

from callsheet.graphs import ad_creation
from callsheet.server.http import api_keys
from callsheet.storage import connect
from tests.doubles.needs import need
from tests.doubles.wire_graphs import GRAPHS, QUESTION
from tests.doubles.wire_served import APPROVED, running_redis_for_file
from tests.doubles.wire_server import running_server
from tests.wire import javascript

TALE: Final = "Once upon a time a server was asked twice, and told it once."
LONG_TALE: Final = " ".join([TALE] * 2)
ENDLESS_TALE: Final = " ".join([TALE] * 25)
PLAN_MESSAGES: Final = ["hello", "I plan to do X", "Done deal"]
TICKS: Final = [{"progress": "planning", "pct": 10}, {"progress": "finishing", "pct": 100}]
CALL_STATUS: Final = {"legacy": "completed", "current": "finished"}
"""The status that each hook gives a tool call that succeeded."""
BOTH_HOOKS: Final = pytest.mark.parametrize("hook", ["legacy", "current"])
HOOKS_AND_SOCKET: Final = pytest.mark.parametrize("hook", ["legacy", "current", "socket"])
Scenario = Callable[[str, str], dict[str, Any]]

# The clients may have to be installed first.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """Return a function that gives the result of a scenario, and fails if the page reported an error."""
    browser = need("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    folder = tmp_path_factory.mktemp("browser") / "js"
    graphs = {**GRAPHS, "ad_creation": ad_creation.graph}
    with (
        running_redis_for_file() as redis,
        running_server(redis, graphs) as url,
        running_server(redis, graphs, auth=("keys",)) as guarded_url,
    ):
        arguments = (str(browser), url, guarded_url, asyncio.run(create_key(redis)))
        script = javascript.run_script("browser.mjs", *arguments, folder=folder, patience_s=200)
        results: dict[str, dict[str, Any]] = asyncio.run(script)

    def result(name: str, hook: str) -> dict[str, Any]:
        outcome = results[f"{name} {hook}"]
        assert not outcome["failure"], outcome["failure"]
        assert not outcome["pageErrors"]
        return outcome

    return result


async def create_key(redis: str) -> str:
    async with connect(redis) as storage:
        return (await api_keys.create_key(storage, "alice", "write")).text


@BOTH_HOOKS
def test_an_answer_is_rendered_token_by_token(scenario: Scenario, hook: str) -> None:
    page = scenario("haveConversation", hook)["first"]
    assert len(page["answers"]) > 2
    assert only_grows(page["answers"], TALE)
    assert ticks_of(page) == list(range(len(TALE.split())))
    assert page["messages"] == [TALE, TALE] == stored_contents(page)
    assert page["statuses"] == ["idle", "running", "idle"]
    assert not page["errors"]


@BOTH_HOOKS
def test_a_conversation_is_continued_from_an_earlier_checkpoint(scenario: Scenario, hook: str) -> None:
    page = scenario("haveConversation", hook)
    repeated = page["repeated"]
    assert repeated["messages"] == [TALE, TALE] == stored_contents(repeated)
    assert (
        repeated["state"]["values"]["messages"][1]["id"]
        != page["first"]["state"]["values"]["messages"][1]["id"]
    )
    assert page["messages"] == [TALE, TALE, "blue", "blue"] == stored_contents(page)
    if hook == "legacy":
        assert page["branches"] == [[TALE, TALE, "green", "green"], [TALE, TALE, "blue", "blue"]]
    assert page["runs"] == ["success"] * 4
    assert not page["errors"]


@HOOKS_AND_SOCKET
def test_an_interrupt_is_resumed(scenario: Scenario, hook: str) -> None:
    page = scenario("answerInterrupt", hook)
    assert page["interrupt"]["action_requests"][0].items() >= QUESTION["action_requests"][0].items()
    assert not page["openInterrupts"]
    assert page["messages"] == PLAN_MESSAGES == stored_contents(page)
    assert page["state"]["values"]["decision"] == APPROVED
    assert ticks_of(page) == TICKS
    assert page["statuses"] == ["idle", "running", "idle", "running", "idle"]
    assert not page["errors"]


@HOOKS_AND_SOCKET
def test_events_of_a_subgraph_are_received(scenario: Scenario, hook: str) -> None:
    page = scenario("answerInterrupt", hook)
    if hook == "legacy":
        namespaces = [[part.partition(":")[0] for part in namespace] for namespace in page["namespaces"]]
        assert [namespace for namespace in namespaces if "__interrupt__" not in namespace] == [
            *(["child", "plan"], ["child", "review"], ["child", "finish"], ["child"]),
        ]
    else:
        assert page["graphs"] == ["child complete"]


@BOTH_HOOKS
def test_an_interrupt_is_resumed_after_the_page_was_loaded_again(scenario: Scenario, hook: str) -> None:
    page = scenario("answerAfterReload", hook)["answered"]
    assert page["messages"] == PLAN_MESSAGES == stored_contents(page)
    assert page["state"]["values"]["decision"] == APPROVED
    assert page["runs"] == ["success", "success"]
    assert not page["errors"]


def test_two_pages_of_one_thread_show_the_same_and_resume_once(scenario: Scenario) -> None:
    page = scenario("shareThread", "current")
    assert page["messages"] == PLAN_MESSAGES == page["other"]["messages"] == stored_contents(page)
    [error] = page["errors"]
    assert error.endswith("has no pending interrupt. Read the thread's state.")
    assert not page["other"]["errors"]
    assert page["runs"] == ["success", "success"]


@BOTH_HOOKS
def test_a_state_is_updated(scenario: Scenario, hook: str) -> None:
    page = scenario("answerAfterReload", hook)
    assert page["messages"] == ["good day", *PLAN_MESSAGES[1:]] == stored_contents(page)
    assert page["state"]["metadata"]["source"] == "update"
    assert not page["errors"]


@HOOKS_AND_SOCKET
def test_a_page_that_is_reloaded_during_a_run_rejoins_it(scenario: Scenario, hook: str) -> None:
    page = scenario("reloadDuringRun", hook)
    assert page["partialReply"] != LONG_TALE
    check_complete_tale(page)


@HOOKS_AND_SOCKET
def test_a_connection_that_is_cut_loses_and_repeats_no_event(scenario: Scenario, hook: str) -> None:
    page = scenario("cutConnection", hook)
    assert page["cut"] > 0
    assert page["partialReply"] != LONG_TALE
    check_complete_tale(page)


@BOTH_HOOKS
def test_a_run_is_cancelled_from_the_page(scenario: Scenario, hook: str) -> None:
    page = scenario("cancelRun", hook)
    # The older hook reads the stored state after a moment, which has nothing of a partial answer.
    assert page["messagesAfterStop"][0] == ENDLESS_TALE
    assert all(ENDLESS_TALE.startswith(partial) for partial in page["messagesAfterStop"][1:])
    assert ENDLESS_TALE not in page["answers"]
    assert stored_contents(page) == [ENDLESS_TALE, "Again", "Again"]
    assert page["runs"] == ["success", "interrupted"]
    assert not page["errors"]


@BOTH_HOOKS
def test_tool_calls_are_shown_with_their_result(scenario: Scenario, hook: str) -> None:
    page = scenario("callTools", hook)
    assert page["tools"] == [f"double {CALL_STATUS[hook]} 8"]
    assert page["progress"] == (["double completed 8"] if hook == "legacy" else [])
    assert not page["errors"]


@HOOKS_AND_SOCKET
def test_a_page_authenticates_with_an_api_key(scenario: Scenario, hook: str) -> None:
    """X16: the key is sent in a header, or offered to a web socket."""
    page = scenario("authenticate", hook)
    assert page["messages"] == ["red", "red"] == stored_contents(page)
    assert not page["errors"]


@BOTH_HOOKS
def test_the_error_of_a_run_is_shown(scenario: Scenario, hook: str) -> None:
    page = scenario("failRun", hook)
    assert set(page["errors"]) == {"boom from node"}
    assert page["runs"] == ["error"]


@BOTH_HOOKS
def test_an_ad_is_created_from_the_page(scenario: Scenario, hook: str) -> None:
    page = scenario("createAd", hook)
    assert page["messages"][-1].startswith("Ready to review: voices v1")
    names = ["search_voices", "create_voice_draft", "create_music_draft", "create_sfx_draft"]
    assert [line.split()[:2] for line in page["tools"]] == [[name, CALL_STATUS[hook]] for name in names]
    assert all('"v1"' in line for line in page["tools"][1:])
    steps = [tick for tick in map(tick_payload, page["ticks"]) if tick.get("type") == "step"]
    assert {step["status"] for step in steps} == {"pending", "in-progress", "completed"}
    assert page["runs"] == ["success"]
    assert not page["errors"]


def check_complete_tale(page: dict[str, Any]) -> None:
    """Fail unless the long tale is complete, without a lost or repeated tick, from one run."""
    assert only_grows(page["answers"], LONG_TALE)
    assert ticks_of(page) == list(range(len(LONG_TALE.split())))
    assert page["messages"] == [LONG_TALE, LONG_TALE] == stored_contents(page)
    assert page["runs"] == ["success"]
    assert not page["errors"]


def only_grows(answers: list[str], complete: str) -> bool:
    return answers[-1] == complete and all(after.startswith(before) for before, after in pairwise(answers))


def ticks_of(page: dict[str, Any]) -> list[Any]:
    return [tick.get("tick", tick) for tick in map(tick_payload, page["ticks"])]


def tick_payload(tick: dict[str, Any]) -> dict[str, Any]:
    """Return the custom data of a graph, which the newer hook wraps in an envelope."""
    data: dict[str, Any] = tick["payload"] if tick.keys() == {"payload"} else tick
    return data


def stored_contents(page: dict[str, Any]) -> list[str]:
    """Return the contents of the messages in the stored state."""
    contents = [message["content"] for message in page["state"]["values"]["messages"]]
    return [
        content if isinstance(content, str) else "".join(part["text"] for part in content)
        for content in contents
    ]
