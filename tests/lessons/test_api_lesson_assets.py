"""Beside a lesson over REST: assets, images, what it took, and what was read before (B40, B62, B63, B66)."""

from typing import Any

import pytest

from callsheet.graphs import fact_narration
from tests.doubles.chat_double import ChatDouble, Say
from tests.lessons.lesson_client import SESSION, Teacher, ok
from tests.lessons.lesson_material import material

TEXT = material("photosynthesis").text


GRAPHS = {"fact_narration": fact_narration.graph}


async def test_assets_are_kept_with_their_session(teacher: Teacher) -> None:
    """B40."""
    await teacher.says("Hello!")
    image = {"assetType": "image", "url": "https://e.org/leaf.png", "metadata": {"title": "A leaf"}}
    first = ok(await teacher.http.post(f"{SESSION}/assets", json=image, headers=teacher.named), 201)
    assert set(first) == {"id", "sessionId", "assetType", "url", "metadata", "createdAt"}
    assert (first["sessionId"], first["metadata"]) == (teacher.session, {"title": "A leaf"})
    sound = ok(
        await teacher.http.post(f"{SESSION}/assets", json={"assetType": "audio"}, headers=teacher.named), 201
    )
    assert (sound["url"], sound["metadata"]) == (None, None)
    assert (await teacher.sees())["assets"] == [first, sound]
    gone = await teacher.http.delete(f"{SESSION}/assets/{first['id']}", headers=teacher.named)
    assert ok(gone) == {"deleted": first["id"]}
    assert ok(await teacher.http.get(f"{SESSION}/assets", headers=teacher.named)) == {"assets": [sound]}
    again = await teacher.http.delete(f"{SESSION}/assets/{first['id']}", headers=teacher.named)
    assert again.status_code == 404


@pytest.mark.parametrize("bad", ["javascript:alert(1)", "leaf.png", "https://", "file:///etc/passwd"])
async def test_an_asset_that_is_not_on_the_web_is_refused(teacher: Teacher, bad: str) -> None:
    await teacher.says("Hello!")
    body = {"assetType": "image", "url": bad}
    reply = await teacher.http.post(f"{SESSION}/assets", json=body, headers=teacher.named)
    assert reply.status_code == 400


async def test_without_a_search_images_are_not_to_be_had(teacher: Teacher) -> None:
    """B62."""
    await teacher.says("Hello!")
    reply = await teacher.http.get(f"{SESSION}/images", params={"q": "leaves"}, headers=teacher.named)
    assert reply.status_code == 400
    assert "there is no image search" in reply.json()["error"]


async def test_what_a_session_took_is_counted(teacher: Teacher) -> None:
    """B58, B66: per tool and agent, with its success rate; offline costs nothing."""
    await teacher.says("Here is the lesson: https://example.org/lesson")
    told = await teacher.narrated()
    assert [one["agent"] for one in told["agents"]] == ["NarrativeBuilderAgent"]
    assert told["agents"][0]["data"]["script"] == told["narration"]
    took = ok(await teacher.http.get(f"{SESSION}/analytics", headers=teacher.named))
    found = took["tools"]["extractFactsTool"]
    assert (found["calls"], found["succeeded"], found["failed"], found["successRate"]) == (2, 1, 1, 0.5)
    assert took["agents"]["FactExtractionAgent"]["successRate"] == 0.5
    assert took["agents"]["NarrativeBuilderAgent"]["calls"] == 1
    assert took["cost"] == 0
    assert took["conversation"]["modelCalls"] >= 1


async def test_the_same_words_are_not_read_twice(teacher: Teacher) -> None:
    """B63: another session of the same owner gets what was found, without a model's work."""
    text = TEXT + "\n\nA bean plant turns to the light within a day."
    first = await teacher.says(text)
    again = await Teacher(teacher.http).says(text)
    assert again["facts"] == first["facts"]
    read = [
        next(one for one in told["toolCalls"] if one["name"] == "extractFactsTool") for told in (first, again)
    ]
    assert [one["result"]["cached"] for one in read] == [False, True]


async def test_a_models_work_has_its_price(teacher: Teacher, model: ChatDouble) -> None:
    """B18, B58, B-R1: what a vendor counted, at the table's price."""
    model.script(Say("Hello to you."))
    told = await teacher.says("Hello!", provider="openai")
    took = ok(await teacher.http.get(f"{SESSION}/analytics", headers=teacher.named))
    used: dict[str, Any] = told["usage"]
    assert took["conversation"]["cost"] == pytest.approx(
        (used["inputTokens"] * 0.10 + used["outputTokens"] * 0.50) / 1e6, abs=1e-8
    )
    assert took["cost"] == took["conversation"]["cost"] > 0
