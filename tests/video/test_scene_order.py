"""The order of scenes, changed by hand."""

from tests.video.video_double import VideoClient


async def test_scenes_are_put_in_another_order_by_hand_and_it_is_undone(video: VideoClient):
    before = [one["id"] for one in await video.scenes()]
    moved = [*before[1:], before[0]]
    reply = await video.call("PUT", "/api/projects/launch/order", json={"sceneIds": moved})
    await video.wait_for_end(reply["executionId"])
    assert [one["id"] for one in await video.scenes()] == moved
    undone = await video.call("POST", "/api/projects/launch/undo", json={})
    await video.wait_for_end(undone["executionId"])
    assert [one["id"] for one in await video.scenes()] == before


async def test_a_project_says_whether_something_can_be_undone_or_done_again(video: VideoClient):
    async def offers() -> tuple[bool, bool]:
        view = await video.call("GET", "/api/projects/launch")
        return view["canUndo"], view["canRedo"]

    assert await offers() == (False, False)
    scenes = [one["id"] for one in await video.scenes()]
    moved = await video.call("PUT", "/api/projects/launch/order", json={"sceneIds": scenes[::-1]})
    await video.wait_for_end(moved["executionId"])
    assert await offers() == (True, False)
    for verb, expected in (("undo", (False, True)), ("redo", (True, False))):
        await video.wait_for_end((await video.call("POST", f"/api/projects/launch/{verb}"))["executionId"])
        assert await offers() == expected


async def test_an_order_that_leaves_a_scene_out_is_refused(video: VideoClient):
    scenes = [one["id"] for one in await video.scenes()]
    refused = await video.call("PUT", "/api/projects/launch/order", 422, json={"sceneIds": scenes[1:]})
    assert refused["error"] == "the new order must name every scene once"


async def test_the_receipt_of_a_deletion_names_the_scene(video: VideoClient):
    done = await video.wait_for_end(await video.start("x", {"tool": "deleteScene", "scenes": ["scene-4"]}))
    [run] = (await video.http.get(f"/threads/{done['threadId']}/runs")).json()
    values = (await video.http.get(f"/threads/{done['threadId']}/runs/{run['run_id']}/join")).json()
    assert values["receipt"]["text"] == "Changed: Scene 4 (scene-4) is deleted (order of the scenes) v2."


async def test_the_receipt_of_another_order_names_the_scenes_as_people_see_them(video: VideoClient):
    ids = [one["id"] for one in await video.scenes()]
    body = {"sceneIds": [ids[1], ids[0], *ids[2:]]}
    moved = await video.call("PUT", "/api/projects/launch/order", json=body)
    done = await video.wait_for_end(moved["executionId"])
    [run] = (await video.http.get(f"/threads/{done['threadId']}/runs")).json()
    values = (await video.http.get(f"/threads/{done['threadId']}/runs/{run['run_id']}/join")).json()
    assert values["receipt"]["text"].startswith("Changed: The order is now: Scene 2, Scene 1, Scene 3,")


async def test_a_scene_whose_words_are_in_no_language_is_refused(video: VideoClient):
    audio = {"description": "Plants make food.", "spokenLanguage": "(7)"}
    refused = await video.http.post("/api/projects", json={"id": "wrong", "scenes": [{"audio": audio}]})
    assert (refused.status_code, "is no language" in refused.text) == (422, True)
