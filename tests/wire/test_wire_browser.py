"""LangGraph's two React hooks in a browser, against our server: all that a person sees and does there.

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
LONG: Final = " ".join([TALE] * 2)
ENDLESS: Final = " ".join([TALE] * 25)
PLAN: Final = ["hello", "I plan to do X", "Done deal"]
TICKS: Final = [{"progress": "planning", "pct": 10}, {"progress": "finishing", "pct": 100}]
ENDED: Final = {"legacy": "completed", "current": "finished"}
"""What the hooks say of a call that has ended well."""
BOTH: Final = pytest.mark.parametrize("hook", ["legacy", "current"])
ALL: Final = pytest.mark.parametrize("hook", ["legacy", "current", "socket"])
Scene = Callable[[str, str], dict[str, Any]]

# The clients may have to be installed first.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """What was seen in a scenario, which must have come to its end without a complaint of the page."""
    browser = need("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    beside = tmp_path_factory.mktemp("browser") / "js"
    graphs = {**GRAPHS, "ad_creation": ad_creation.graph}
    with (
        running_redis_for_file() as redis,
        running_server(redis, graphs) as url,
        running_server(redis, graphs, auth=("keys",)) as guarded,
    ):
        given = (str(browser), url, guarded, asyncio.run(_key(redis)))
        told = javascript.run_script("browser.mjs", *given, beside=beside, patience_s=200)
        seen: dict[str, dict[str, Any]] = asyncio.run(told)

    def found(name: str, hook: str) -> dict[str, Any]:
        one = seen[f"{name} {hook}"]
        assert not one["failed"], one["failed"]
        assert not one["complaints"]
        return one

    return found


async def _key(redis: str) -> str:
    async with connect(redis) as storage:
        return (await api_keys.create_key(storage, "alice", "write")).text


@BOTH
def test_an_answer_is_seen_as_it_is_given(scene: Scene, hook: str) -> None:
    seen = scene("converses", hook)["first"]
    assert len(seen["answers"]) > 2
    assert grows(seen["answers"], TALE)
    assert numbers(seen) == list(range(len(TALE.split())))
    assert seen["messages"] == [TALE, TALE] == kept(seen)
    assert seen["lives"] == ["idle", "running", "idle"]
    assert not seen["errors"]


@BOTH
def test_a_conversation_is_gone_on_with_from_an_earlier_place(scene: Scene, hook: str) -> None:
    seen = scene("converses", hook)
    again = seen["again"]
    assert again["messages"] == [TALE, TALE] == kept(again)
    assert (
        again["state"]["values"]["messages"][1]["id"] != seen["first"]["state"]["values"]["messages"][1]["id"]
    )
    assert seen["messages"] == [TALE, TALE, "blue", "blue"] == kept(seen)
    if hook == "legacy":
        assert seen["branches"] == [[TALE, TALE, "green", "green"], [TALE, TALE, "blue", "blue"]]
    assert seen["runs"] == ["success"] * 4
    assert not seen["errors"]


@ALL
def test_a_question_is_answered(scene: Scene, hook: str) -> None:
    seen = scene("answers", hook)
    assert seen["asked"]["action_requests"][0].items() >= QUESTION["action_requests"][0].items()
    assert not seen["left"]
    assert seen["messages"] == PLAN == kept(seen)
    assert seen["state"]["values"]["decision"] == APPROVED
    assert numbers(seen) == TICKS
    assert seen["lives"] == ["idle", "running", "idle", "running", "idle"]
    assert not seen["errors"]


@ALL
def test_what_happens_inside_another_graph_is_seen(scene: Scene, hook: str) -> None:
    seen = scene("answers", hook)
    if hook == "legacy":
        places = [[part.partition(":")[0] for part in place] for place in seen["places"]]
        assert [place for place in places if "__interrupt__" not in place] == [
            *(["child", "plan"], ["child", "review"], ["child", "finish"], ["child"]),
        ]
    else:
        assert seen["graphs"] == ["child complete"]


@BOTH
def test_a_question_is_answered_on_a_page_that_was_opened_anew(scene: Scene, hook: str) -> None:
    seen = scene("comesBack", hook)["answered"]
    assert seen["messages"] == PLAN == kept(seen)
    assert seen["state"]["values"]["decision"] == APPROVED
    assert seen["runs"] == ["success", "success"]
    assert not seen["errors"]


def test_pages_of_one_thread_see_the_same_and_answer_once(scene: Scene) -> None:
    seen = scene("isShared", "current")
    assert seen["messages"] == PLAN == seen["other"]["messages"] == kept(seen)
    [error] = seen["errors"]
    assert error.endswith("has no pending interrupt; read the thread's state")
    assert not seen["other"]["errors"]
    assert seen["runs"] == ["success", "success"]


@BOTH
def test_a_state_is_changed(scene: Scene, hook: str) -> None:
    seen = scene("comesBack", hook)
    assert seen["messages"] == ["good day", *PLAN[1:]] == kept(seen)
    assert seen["state"]["metadata"]["source"] == "update"
    assert not seen["errors"]


@ALL
def test_a_page_that_is_opened_anew_goes_on_with_the_run(scene: Scene, hook: str) -> None:
    seen = scene("reloads", hook)
    assert seen["early"] != LONG
    wholly_told(seen)


@ALL
def test_a_connection_that_is_cut_loses_and_repeats_nothing(scene: Scene, hook: str) -> None:
    seen = scene("isCutOff", hook)
    assert seen["cut"] > 0
    assert seen["early"] != LONG
    wholly_told(seen)


@BOTH
def test_a_run_is_stopped(scene: Scene, hook: str) -> None:
    seen = scene("stops", hook)
    # The older hook looks after a moment what the server has kept, which is nothing of half an answer.
    assert seen["left"][0] == ENDLESS
    assert all(ENDLESS.startswith(half) for half in seen["left"][1:])
    assert ENDLESS not in seen["answers"]
    assert kept(seen) == [ENDLESS, "Again", "Again"]
    assert seen["runs"] == ["success", "interrupted"]
    assert not seen["errors"]


@BOTH
def test_calls_of_tools_are_seen(scene: Scene, hook: str) -> None:
    seen = scene("usesTools", hook)
    assert seen["tools"] == [f"double {ENDED[hook]} 8"]
    assert seen["progress"] == (["double completed 8"] if hook == "legacy" else [])
    assert not seen["errors"]


@ALL
def test_a_page_says_who_asks(scene: Scene, hook: str) -> None:
    """X16: a key, in a header or offered to a web socket."""
    seen = scene("saysWhoAsks", hook)
    assert seen["messages"] == ["red", "red"] == kept(seen)
    assert not seen["errors"]


@BOTH
def test_a_failure_is_seen(scene: Scene, hook: str) -> None:
    seen = scene("fails", hook)
    assert set(seen["errors"]) == {"boom from node"}
    assert seen["runs"] == ["error"]


@BOTH
def test_an_ad_is_made(scene: Scene, hook: str) -> None:
    seen = scene("makesAnAd", hook)
    assert seen["messages"][-1].startswith("Ready to review: voices v1")
    names = ["search_voices", "create_voice_draft", "create_music_draft", "create_sfx_draft"]
    assert [line.split()[:2] for line in seen["tools"]] == [[name, ENDED[hook]] for name in names]
    assert all('"v1"' in line for line in seen["tools"][1:])
    steps = [tick for tick in map(payload, seen["ticks"]) if tick.get("type") == "step"]
    assert {step["status"] for step in steps} == {"pending", "in-progress", "completed"}
    assert seen["runs"] == ["success"]
    assert not seen["errors"]


def wholly_told(seen: dict[str, Any]) -> None:
    """A long tale was told to its end, nothing lost and nothing twice, by one run."""
    assert grows(seen["answers"], LONG)
    assert numbers(seen) == list(range(len(LONG.split())))
    assert seen["messages"] == [LONG, LONG] == kept(seen)
    assert seen["runs"] == ["success"]
    assert not seen["errors"]


def grows(answers: list[str], whole: str) -> bool:
    return answers[-1] == whole and all(after.startswith(before) for before, after in pairwise(answers))


def numbers(seen: dict[str, Any]) -> list[Any]:
    return [tick.get("tick", tick) for tick in map(payload, seen["ticks"])]


def payload(tick: dict[str, Any]) -> dict[str, Any]:
    """What a graph told; the newer hook hands it over in an envelope."""
    found: dict[str, Any] = tick["payload"] if tick.keys() == {"payload"} else tick
    return found


def kept(seen: dict[str, Any]) -> list[str]:
    """What was said, as the server has it."""
    contents = [message["content"] for message in seen["state"]["values"]["messages"]]
    return [one if isinstance(one, str) else "".join(part["text"] for part in one) for one in contents]
