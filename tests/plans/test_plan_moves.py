"""Plans go with the file of their thread and with its copies: what is done, what waits, and its undoing."""

import json
from typing import Any

import httpx
from redis import Redis

from tests.doubles.chat_double import ChatDouble, Say
from tests.plans.held_plans import Gates, Plans
from tests.plans.test_plan_executions import gates, http  # noqa: F401 -- fixtures
from tests.storage.test_archive import change_lines, export_thread
from tests.video.video_double import VideoClient, edit

DELETION = {"tool": "deleteScene", "scenes": ["scene-4"]}


def lines_of(content: bytes) -> list[Any]:
    """Return the lines of a file but its last, whose checksum depends on the order of fields."""
    return [json.loads(line) for line in content.splitlines()[:-1]]


async def move(video: VideoClient, inspector: Redis) -> None:
    """Export the project's thread, empty the server and import the file."""
    content = await export_thread(video.http, video.thread)
    inspector.flushdb()
    reply = await video.http.post("/api/threads/import", content=content)
    assert reply.status_code == 201, reply.text
    assert lines_of(await export_thread(video.http, video.thread)) == lines_of(content)


async def copy(video: VideoClient) -> VideoClient:
    """Copy the project's thread, and return a client of the copy."""
    reply = await video.http.post(f"/threads/{video.thread}/copy")
    assert reply.status_code == 200, reply.text
    copied = VideoClient(video.http, video.model)
    copied.name = reply.json()["thread_id"]
    return copied


async def listed_executions(video: VideoClient) -> list[dict[str, object]]:
    return list((await video.call("GET", f"/api/projects/{video.name}/executions"))["executions"])


async def start_unapproved(video: VideoClient) -> str:
    name = await video.start("x", edit("scene-3"), DELETION, approve=True)
    await video.wait_until_idle()
    return name


async def approve(video: VideoClient, name: str) -> None:
    await video.call("POST", f"/api/executions/{name}/decision", json={"decisions": [{"type": "approve"}]})
    done = await video.wait_for_end(name)
    assert done["counts"] == {"completed": 2}
    assert "scene-4" not in await video.contents()


async def undo(video: VideoClient) -> None:
    reply = await video.call("POST", f"/api/projects/{video.name}/undo")
    await video.wait_for_end(reply["executionId"])


async def test_a_moved_video_shows_its_plans_and_undoes_them(video: VideoClient, inspector: Redis):
    """D50."""
    before = await video.contents()
    name = await video.start("all", edit("scene-1", "scene-2"), DELETION)
    await video.wait_for_end(name)
    execution, listed = await video.execution(name), await listed_executions(video)
    await move(video, inspector)
    assert (await video.execution(name), await listed_executions(video)) == (execution, listed)
    await undo(video)
    assert await video.contents() == before
    await video.wait_for_end((await video.call("POST", "/api/projects/launch/redo"))["executionId"])
    assert (await video.contents())["scene-2"]["background"]["color"] == "#abcdef"


async def test_a_plan_that_waits_for_approval_is_shown_and_approved_after_a_move(
    video: VideoClient, inspector: Redis
):
    name = await start_unapproved(video)
    await move(video, inspector)
    assert (await video.execution(name))["status"] == "planned"
    await approve(video, name)


async def test_a_copied_video_has_plans_of_its_own(video: VideoClient):
    before = await video.contents()
    done = await video.start("all", edit("scene-1", "scene-2"))
    await video.wait_for_end(done)
    name = await start_unapproved(video)
    original = await listed_executions(video)
    copied = await copy(video)
    plans = await listed_executions(copied)
    assert not {one["id"] for one in plans} & {one["id"] for one in original}
    await approve(copied, str(plans[0]["id"]))
    await undo(copied)
    await undo(copied)
    assert await copied.contents() == before
    assert await listed_executions(video) == original
    await approve(video, name)


async def test_a_file_with_a_plan_of_another_video_is_refused_and_changes_nothing(video: VideoClient):
    name = await video.start("all", edit("scene-1"))
    await video.wait_for_end(name)
    content, execution = await export_thread(video.http, video.thread), await video.execution(name)

    def rename(lines: list[dict[str, Any]]) -> None:
        lines[:] = json.loads(json.dumps(lines).replace("launch", "other"))

    for _ in range(2):
        reply = await video.http.post("/api/threads/import", content=change_lines(content, rename))
        assert (reply.status_code, name in reply.json()["error"]) == (409, True), reply.text
        await video.call("GET", "/api/projects/other", 404)
        await video.call("GET", "/threads/other", 404)
    assert await video.execution(name) == execution


async def test_context_that_a_person_gave_a_video_goes_with_it(video: VideoClient, inspector: Redis):
    path = "/api/projects/launch/context/brand"
    await video.call("PUT", path, json={"value": {"color": "#ff8800"}})
    await video.call("PUT", "/api/projects/launch/context/short", json={"value": 1, "expiresInSeconds": 3600})
    before = await video.call("GET", "/api/projects/launch/context?contains=")
    await move(video, inspector)
    assert await video.call("GET", "/api/projects/launch/context?contains=") == before


async def test_a_paused_plan_goes_on_after_a_move_and_in_a_copy_with_the_consent_it_has(
    http: httpx.AsyncClient,  # noqa: F811
    model: ChatDouble,
    gates: Gates,  # noqa: F811
    inspector: Redis,
):
    """D44: the approved deletion is not asked about again."""
    plans = Plans(http, model, "page_builder", "page-1")
    await plans.call(
        "POST", "/api/pages/page-1/chat", json={"message": "Add a button", "provider": "offline"}
    )
    element = (await plans.call("GET", "/api/pages/page-1"))["page"]["root"]["children"][-1]["id"]
    gates.close("apply_theme")
    calls = [("p1", "apply_theme", {"theme": "dark"}), ("p2", "delete_element", {"elementId": element})]
    await plans.ask(*calls)
    await plans.idle("interrupted")
    await plans.answer({"decisions": [{"type": "approve"}]})
    name = await plans.next_plan()
    await plans.call("POST", f"/api/executions/{name}/pause")
    gates.open()
    await plans.idle("interrupted")
    content = await export_thread(http, "page-1")
    inspector.flushdb()
    await plans.call("POST", "/api/threads/import", 201, content=content)
    copied = Plans(
        http, model, "page_builder", (await plans.call("POST", "/threads/page-1/copy"))["thread_id"]
    )
    assert await copied.plan() != name
    for each in (plans, copied):
        model.script(Say("Done."))
        plan = await each.plan()
        assert await each.statuses(plan) == {"p1": "completed", "p2": "pending"}
        await each.call("POST", f"/api/executions/{plan}/resume")
        done = await each.wait_for_end(plan)
        assert done["counts"] == {"completed": 2}, done["plan"]["steps"][1]
