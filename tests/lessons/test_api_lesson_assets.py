"""Assets, images, analytics and the extraction cache of a lesson over REST (B40, B62, B63, B66)."""

from typing import Any

import pytest

from callsheet.graphs import fact_narration
from tests.doubles.chat_double import ChatDouble, Say
from tests.lessons.lesson_client import SESSION, LessonClient, ok
from tests.lessons.lesson_material import material

TEXT = material("photosynthesis").text
GRAPHS = {"fact_narration": fact_narration.graph}


async def test_assets_are_stored_with_their_session_and_can_be_deleted(lesson_client: LessonClient) -> None:
    """B40."""
    await lesson_client.send("Hello!")
    image_body = {"assetType": "image", "url": "https://e.org/leaf.png", "metadata": {"title": "A leaf"}}
    image = ok(await lesson_client.request("POST", f"{SESSION}/assets", json=image_body), 201)
    assert set(image) == {"id", "sessionId", "assetType", "url", "metadata", "createdAt"}
    assert (image["sessionId"], image["metadata"]) == (lesson_client.session_id, {"title": "A leaf"})
    audio = ok(await lesson_client.request("POST", f"{SESSION}/assets", json={"assetType": "audio"}), 201)
    assert (audio["url"], audio["metadata"]) == (None, None)
    assert (await lesson_client.get_session())["assets"] == [image, audio]
    deletion = await lesson_client.request("DELETE", f"{SESSION}/assets/{image['id']}")
    assert ok(deletion) == {"deleted": image["id"]}
    assert ok(await lesson_client.request("GET", f"{SESSION}/assets")) == {"assets": [audio]}
    second_deletion = await lesson_client.request("DELETE", f"{SESSION}/assets/{image['id']}")
    assert second_deletion.status_code == 404


@pytest.mark.parametrize("bad_url", ["javascript:alert(1)", "leaf.png", "https://", "file:///etc/passwd"])
async def test_an_asset_whose_url_is_not_http_is_refused(lesson_client: LessonClient, bad_url: str) -> None:
    await lesson_client.send("Hello!")
    body = {"assetType": "image", "url": bad_url}
    reply = await lesson_client.request("POST", f"{SESSION}/assets", json=body)
    assert reply.status_code == 422


async def test_a_request_for_images_without_an_image_search_is_refused(lesson_client: LessonClient) -> None:
    """B62."""
    await lesson_client.send("Hello!")
    reply = await lesson_client.request("GET", f"{SESSION}/images", params={"q": "leaves"})
    assert reply.status_code == 422
    assert "there is no image search" in reply.json()["error"]


async def test_analytics_count_the_calls_and_cost_of_a_session(lesson_client: LessonClient) -> None:
    """B58, B66: per tool and agent, with the success rate; the offline model costs nothing."""
    await lesson_client.send("Here is the lesson: https://example.org/lesson")
    reply = await lesson_client.create_narration()
    assert [agent["agent"] for agent in reply["agents"]] == ["NarrativeBuilderAgent"]
    assert reply["agents"][0]["data"]["script"] == reply["narration"]
    analytics = ok(await lesson_client.request("GET", f"{SESSION}/analytics"))
    extraction = analytics["tools"]["extractFactsTool"]
    assert (
        extraction["calls"],
        extraction["succeeded"],
        extraction["failed"],
        extraction["successRate"],
    ) == (2, 1, 1, 0.5)
    assert analytics["agents"]["FactExtractionAgent"]["successRate"] == 0.5
    assert analytics["agents"]["NarrativeBuilderAgent"]["calls"] == 1
    assert analytics["cost"] == 0
    assert analytics["conversation"]["modelCalls"] >= 1


async def test_facts_of_the_same_text_come_from_the_cache_in_another_session(
    lesson_client: LessonClient,
) -> None:
    """B63: for the same owner, without calling a model."""
    text = TEXT + "\n\nA bean plant turns to the light within a day."
    reply = await lesson_client.send(text)
    cached_reply = await LessonClient(lesson_client.http).send(text)
    assert cached_reply["facts"] == reply["facts"]
    extractions = [
        next(call for call in each_reply["toolCalls"] if call["name"] == "extractFactsTool")
        for each_reply in (reply, cached_reply)
    ]
    assert [extraction["result"]["cached"] for extraction in extractions] == [False, True]


async def test_analytics_show_the_cost_of_a_vendors_model(
    lesson_client: LessonClient, model: ChatDouble
) -> None:
    """B18, B58, B-R1: the tokens that the vendor counted, at the table's price."""
    model.script(Say("Hello to you."))
    reply = await lesson_client.send("Hello!", provider="openai")
    analytics = ok(await lesson_client.request("GET", f"{SESSION}/analytics"))
    usage: dict[str, Any] = reply["usage"]
    assert analytics["conversation"]["cost"] == pytest.approx(
        (usage["inputTokens"] * 0.10 + usage["outputTokens"] * 0.50) / 1e6, abs=1e-8
    )
    assert analytics["cost"] == analytics["conversation"]["cost"] > 0
