"""Beside a lesson over REST: assets, images, what it took, and what was read before (B40, B62, B63, B66)."""

from typing import Any

import pytest

from callsheet.graphs import fact_narration
from tests.doubles.chat_double import ChatDouble, Say
from tests.lessons.lesson_client import SESSION, LessonClient, ok
from tests.lessons.lesson_material import material

TEXT = material("photosynthesis").text


GRAPHS = {"fact_narration": fact_narration.graph}


async def test_assets_are_kept_with_their_session(lesson_client: LessonClient) -> None:
    """B40."""
    await lesson_client.send("Hello!")
    image = {"assetType": "image", "url": "https://e.org/leaf.png", "metadata": {"title": "A leaf"}}
    first = ok(
        await lesson_client.request("POST", f"{SESSION}/assets", json=image),
        201,
    )
    assert set(first) == {"id", "sessionId", "assetType", "url", "metadata", "createdAt"}
    assert (first["sessionId"], first["metadata"]) == (lesson_client.session_id, {"title": "A leaf"})
    sound = ok(
        await lesson_client.request("POST", f"{SESSION}/assets", json={"assetType": "audio"}),
        201,
    )
    assert (sound["url"], sound["metadata"]) == (None, None)
    assert (await lesson_client.get_session())["assets"] == [first, sound]
    gone = await lesson_client.request("DELETE", f"{SESSION}/assets/{first['id']}")
    assert ok(gone) == {"deleted": first["id"]}
    assert ok(await lesson_client.request("GET", f"{SESSION}/assets")) == {"assets": [sound]}
    again = await lesson_client.request("DELETE", f"{SESSION}/assets/{first['id']}")
    assert again.status_code == 404


@pytest.mark.parametrize("bad", ["javascript:alert(1)", "leaf.png", "https://", "file:///etc/passwd"])
async def test_an_asset_that_is_not_on_the_web_is_refused(lesson_client: LessonClient, bad: str) -> None:
    await lesson_client.send("Hello!")
    body = {"assetType": "image", "url": bad}
    reply = await lesson_client.request("POST", f"{SESSION}/assets", json=body)
    assert reply.status_code == 400


async def test_without_a_search_images_are_not_to_be_had(lesson_client: LessonClient) -> None:
    """B62."""
    await lesson_client.send("Hello!")
    reply = await lesson_client.request("GET", f"{SESSION}/images", params={"q": "leaves"})
    assert reply.status_code == 400
    assert "there is no image search" in reply.json()["error"]


async def test_what_a_session_took_is_counted(lesson_client: LessonClient) -> None:
    """B58, B66: per tool and agent, with its success rate; offline costs nothing."""
    await lesson_client.send("Here is the lesson: https://example.org/lesson")
    told = await lesson_client.create_narration()
    assert [agent["agent"] for agent in told["agents"]] == ["NarrativeBuilderAgent"]
    assert told["agents"][0]["data"]["script"] == told["narration"]
    took = ok(await lesson_client.request("GET", f"{SESSION}/analytics"))
    found = took["tools"]["extractFactsTool"]
    assert (found["calls"], found["succeeded"], found["failed"], found["successRate"]) == (2, 1, 1, 0.5)
    assert took["agents"]["FactExtractionAgent"]["successRate"] == 0.5
    assert took["agents"]["NarrativeBuilderAgent"]["calls"] == 1
    assert took["cost"] == 0
    assert took["conversation"]["modelCalls"] >= 1


async def test_the_same_words_are_not_read_twice(lesson_client: LessonClient) -> None:
    """B63: another session of the same owner gets what was found, without a model's work."""
    text = TEXT + "\n\nA bean plant turns to the light within a day."
    first = await lesson_client.send(text)
    again = await LessonClient(lesson_client.http).send(text)
    assert again["facts"] == first["facts"]
    read = [
        next(call for call in told["toolCalls"] if call["name"] == "extractFactsTool")
        for told in (first, again)
    ]
    assert [one["result"]["cached"] for one in read] == [False, True]


async def test_a_models_work_has_its_price(lesson_client: LessonClient, model: ChatDouble) -> None:
    """B18, B58, B-R1: what a vendor counted, at the table's price."""
    model.script(Say("Hello to you."))
    told = await lesson_client.send("Hello!", provider="openai")
    took = ok(await lesson_client.request("GET", f"{SESSION}/analytics"))
    used: dict[str, Any] = told["usage"]
    assert took["conversation"]["cost"] == pytest.approx(
        (used["inputTokens"] * 0.10 + used["outputTokens"] * 0.50) / 1e6, abs=1e-8
    )
    assert took["cost"] == took["conversation"]["cost"] > 0
