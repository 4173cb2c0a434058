"""A plan of an ad that a person approves: they read what it makes, and edit it by the form's schema."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.doubles.served import generate_ad, served_app
from tests.doubles.waiting import eventually

BRIEF = "20 seconds for Harbour Bikes, e-bikes by the hour in Porto. First hour free until 30 June."


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as http:
        yield http


async def ask_for_approval(client: httpx.AsyncClient, text: str = BRIEF, thread: str = "") -> str:
    """Start a plan of an ad that waits for approval; return its thread."""
    thread = thread or str((await client.post("/threads", json={})).json()["thread_id"])
    body = {
        "assistant_id": "ad_creation",
        "input": {"messages": [{"role": "user", "content": text}]},
        "context": {"approve_plan": True, "provider": "offline"},
    }
    reply = await client.post(f"/threads/{thread}/runs/wait", json=body)
    assert reply.status_code == 200, reply.text
    return thread


async def question_of(client: httpx.AsyncClient, thread: str, other_than: str = "") -> dict[str, Any]:
    async def waiting() -> Any:
        listed = (await client.get("/api/questions")).json()["questions"]
        return [one for one in listed if one["thread"] == thread and one["id"] != other_than]

    await eventually(waiting, "the question")
    [question] = await waiting()
    return dict(question)


async def answer(client: httpx.AsyncClient, question: dict[str, Any], edited: dict[str, Any]) -> None:
    """Answer with an edit of the first step, and approve the others."""
    [first, *others] = question["value"]["action_requests"]
    edit = {"type": "edit", "edited_action": {"name": first["name"], "args": edited}}
    decisions = [edit, *({"type": "approve"} for _ in others)]
    path = f"/api/questions/{question['id']}/answer"
    reply = await client.post(path, json={"answer": {"decisions": decisions}})
    assert reply.status_code == 200, reply.text


async def test_what_a_plan_of_an_ad_makes_is_read_in_its_question(client: httpx.AsyncClient) -> None:
    """A person approves words that they have read: who says what, and which effect is heard when."""
    question = await question_of(client, await ask_for_approval(client))
    voices, music, effects = question["wouldChange"]
    assert voices == (
        "Writing and casting the voices:\n"
        "Ava Multilingual, female, American: “Here comes Harbour Bikes. Harbour Bikes, e-bikes by the hour "
        "in Porto.”\n"
        "Andrew Multilingual, male, American: “First hour free until 30 June. Harbour Bikes. Come and see.”"
    )
    assert music.startswith("Describing the music: bright acoustic folk guitar")
    assert effects == (
        "Placing the sound effects:\n"
        "bicycle bell ringing twice, at the start, 1.5 s\n"
        "bicycle freewheel rolling past, at the end, 1.5 s"
    )
    assert question["title"].splitlines()[1] == "1. Writing and casting the voices"


async def test_a_person_edits_a_step_of_an_ad_without_its_id(client: httpx.AsyncClient) -> None:
    """C-R1: the server fills in the ad, as it does for a model; a form need not ask for it."""
    thread = await ask_for_approval(client)
    question = await question_of(client, thread)
    assert (question["artefact"], question["about"]) == (None, BRIEF)
    schemas = {one["action_name"]: one["args_schema"] for one in question["value"]["review_configs"]}
    for schema in schemas.values():
        assert schema["properties"]["adId"]["readOnly"] is True
        assert "adId" not in schema["required"]
    tracks = question["value"]["action_requests"][0]["args"]["tracks"]
    tracks[0]["text"] = "Harbour Bikes. Ride along the river."
    await answer(client, question, {"tracks": tracks})

    async def script() -> Any:
        ad = (await client.get(f"/api/ads/{thread}")).json()
        return (ad.get("streams", {}).get("voices") or {}).get("newest")

    await eventually(script, "the voices")
    assert (await script())["data"]["voiceTracks"][0]["text"] == "Harbour Bikes. Ride along the river."


async def test_a_wrong_edit_is_explained_to_the_person_in_words(client: httpx.AsyncClient) -> None:
    """No name of a tool, no JSON: the field, and the rule that it breaks."""
    question = await question_of(client, await ask_for_approval(client))
    tracks = question["value"]["action_requests"][0]["args"]["tracks"]
    tracks[1]["overlap"] = 99
    await answer(client, question, {"tracks": tracks})
    repeated = await question_of(client, question["thread"], other_than=question["id"])
    assert repeated["value"]["problem"] == (
        "“Writing and casting the voices” cannot be done as edited. "
        "Tracks 2, overlap: Input should be less than or equal to 60."
    )
    assert repeated["title"] == question["title"]
    assert repeated["wouldChange"] == question["wouldChange"]


async def test_a_question_about_an_ad_is_listed_with_the_title_of_the_ad(client: httpx.AsyncClient) -> None:
    """Of several plans that wait, a person knows which one is whose."""
    ad = await generate_ad(client)
    await ask_for_approval(client, "make the music calmer", ad["conversationId"])
    question = await question_of(client, ad["conversationId"])
    title = (await client.get("/api/ads")).json()["ads"][0]["title"]
    assert question["artefact"] == {"kind": "ad", "id": "ad-1", "title": title}
    assert title != "ad-1"
    path = f"/api/questions/{question['id']}/answer"
    assert (await client.post(path, json={"answer": {"decisions": [{"type": "approve"}]}})).status_code == 200
    [answered] = (await client.get("/api/questions?state=answered")).json()["questions"]
    assert answered["artefact"]["title"] == title
