"""Evaluation cases of videos: what the offline grammar covers holds, and the checks can fail."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from callsheet.state.video.starter import starters
from tests.served import served
from tests.video_cases import Sides, failures, load
from tests.video_double import Director, Video

CASES = load()


@pytest.fixture
async def http(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served(valkey_url) as client:
        yield client


@pytest.fixture
def director() -> Iterator[Director]:
    with Director() as one:
        yield one


def test_there_are_enough_cases_and_each_names_what_exists():
    assert len(CASES) >= 25
    assert len({case["id"] for case in CASES}) == len(CASES)
    for case in CASES:
        known = {f"scene-{number}" for number, _ in enumerate(starters()[case["project"]], 1)}
        expect = case["expect"]
        for name in ("changes", "faster", "slower", "deleted", "order", "reads", "as_at_start"):
            assert {*expect.get(name, ())} <= known, case["id"]


@pytest.mark.parametrize("case", [case for case in CASES if case.get("offline")], ids=lambda case: case["id"])
async def test_a_case_of_the_grammar_holds(case, http: httpx.AsyncClient, director: Director):
    """D7 to D14, D-R12, D-R13: right scenes changed, all others byte-identical, the plan minimal."""
    video = Video(http, director, case["id"])
    await video.call("POST", "/api/projects", 201, json={"id": case["id"], "starter": case["project"]})
    start = await video.contents()
    for earlier in case.get("said", ()):
        await video.ended((await video.started(earlier, provider="offline"))["executionId"])
    before = await video.contents()
    started = await video.started(case["say"], provider="offline", sceneIds=case.get("attached", []))
    if started["executionId"]:
        await video.ended(started["executionId"])
    steps = started["plan"]["steps"] if started["plan"] else []
    after = await video.contents()
    assert failures(case["expect"], Sides(start, before, after), steps, started["message"]) == []
    wrong = {**after, "scene-1": {**before["scene-1"], "name": "changed"}} if "scene-1" in after else {}
    if "scene-1" not in case["expect"]["changes"]:
        assert failures(case["expect"], Sides(start, before, wrong), steps, ""), (
            "the checks see a wrong change"
        )
