"""Lessons over REST: a chat, a choice, a narration, and sessions that last."""

import json
from typing import Any

import httpx

from callsheet.graphs import fact_narration
from tests.doubles.wire_served import new_id
from tests.lessons.lesson_client import SESSION, TOOLS, LessonClient, ok, user
from tests.lessons.lesson_material import material

TEXT = material("photosynthesis").text


GRAPHS = {"fact_narration": fact_narration.graph}


async def test_a_text_becomes_facts_a_choice_and_a_narration(lesson_client: LessonClient) -> None:
    """B24, B27, B28, B33, B45-B49, B69, B-R3: flat fields, and the tool's output as a string."""
    first = await lesson_client.http.post(
        TOOLS, json={"messages": user("My student is 10 and loves soccer.\n\n" + TEXT)}
    )
    found = ok(first)
    assert found["sessionId"] == first.headers["X-Session-Id"]
    lesson_client.session_id = found["sessionId"]
    assert (found["type"], found["success"], found["workflowStep"]) == ("tool-result", True, "selection")
    assert (found["childAge"], found["childInterest"], found["topic"]) == ("10", "soccer", "Photosynthesis")
    assert found["learningObjective"]
    assert found["showFactSelectionPrompt"]
    assert not found["showNarrationReviewPrompt"]
    assert 5 <= len(found["facts"]) <= 15
    assert json.loads(found["output"])["facts"] == found["facts"]
    assert found["message"].startswith("I found 7 facts about Photosynthesis.")
    assert found["interrupt"]["value"]["facts"][0]["id"] == found["facts"][0]["id"]
    edited = {**found["facts"][2], "details": "Leaves are green."}
    reply = await lesson_client.post(TOOLS, messages=[], selectedFacts=[found["facts"][0]["id"], edited])
    told = ok(reply)
    assert "X-Session-Id" not in reply.headers
    assert (told["success"], told["workflowStep"], told["status"]) == (True, "review", "script_generated")
    assert [fact["id"] for fact in told["confirmedFacts"]] == [found["facts"][0]["id"], edited["id"]]
    assert "Leaves are green." in json.dumps(told["narration"])
    assert json.loads(told["output"])["narration"]["segments"] == told["narration"]["segments"]
    assert told["showNarrationReviewPrompt"]
    assert told["interrupt"] is None


async def test_a_session_comes_back_whole(lesson_client: LessonClient) -> None:
    """B26, B38, B39, B41, B43, B45: deep-linked by its id, in another client."""
    await lesson_client.send("My student is 10 and loves soccer.")
    told = await lesson_client.create_narration()
    seen = await LessonClient(lesson_client.http, lesson_client.session_id).get_session()
    lesson = seen["session"]
    assert set(lesson) == {
        *("id", "userId", "status", "topic", "childAge", "childInterest", "learningObjective"),
        *("extractedFacts", "confirmedFacts", "generatedScript", "sourceMaterials", "createdAt", "updatedAt"),
    }
    assert (lesson["id"], lesson["userId"], lesson["status"]) == (
        lesson_client.session_id,
        "local",
        "script_generated",
    )
    assert lesson["generatedScript"] == told["narration"]
    assert len(lesson["confirmedFacts"]) == 3 < len(lesson["extractedFacts"])
    assert lesson["createdAt"] <= lesson["updatedAt"]
    assert seen["workflowStep"] == "review"
    said = seen["messages"]
    assert said[0]["content"] == "My student is 10 and loves soccer."
    assert {one["role"] for one in said} == {"user", "assistant"}
    assert all(one["sessionId"] == lesson_client.session_id and one["createdAt"] for one in said)
    assert [one["createdAt"] for one in said] == sorted(one["createdAt"] for one in said)
    parts = [part for one in said for part in one["parts"] or () if part["type"].startswith("tool-")]
    assert "tool-extractFactsTool" in {part["type"] for part in parts}
    assert all(part["state"] == "output-available" for part in parts)


async def test_chat_alone_is_answered_with_text_alone(lesson_client: LessonClient) -> None:
    """B25, B29, B34: the alternative endpoint; only the newest message counts."""
    before = [{"role": "user", "content": TEXT}, {"role": "assistant", "content": "Yes?"}]
    reply = await lesson_client.post(
        "/api/agent-create", messages=[*before, *user("Hello! What can you do?")]
    )
    told = ok(reply)
    assert (told["type"], told["output"], told["success"], told["workflowStep"]) == (
        "text",
        None,
        True,
        "input",
    )
    assert told["message"]
    assert told["facts"] == []


async def test_the_sessions_name_is_looked_for_in_header_body_and_query(lesson_client: LessonClient) -> None:
    """B35, B37."""
    for _ in range(3):
        await lesson_client.send("My student is 7.")
        names = [str(lesson_client.session_id), *[f"unknown-{new_id()}"] * 2]
        break
    one, other, last = names
    for header, body, query, wanted in [
        (one, other, last, one),
        (None, one, other, one),
        (None, None, one, one),
        (None, None, None, None),
        (other, one, one, None),
    ]:
        reply = await lesson_client.http.post(
            TOOLS,
            json={"messages": user("Hello!"), "sessionId": body},
            headers={"X-Session-Id": header} if header else {},
            params={"sessionId": query} if query else {},
        )
        told = ok(reply)
        if wanted:
            assert told["sessionId"] == wanted
            assert "X-Session-Id" not in reply.headers
        else:
            assert told["sessionId"] not in names
            assert reply.headers["X-Session-Id"] == told["sessionId"]


async def test_a_new_session_knows_nothing_of_another(lesson_client: LessonClient) -> None:
    """B68."""
    await lesson_client.create_narration()
    fresh = await LessonClient(lesson_client.http).send("Hello!")
    assert fresh["sessionId"] != lesson_client.session_id
    assert (fresh["facts"], fresh["narration"], fresh["childAge"], fresh["topic"]) == ([], None, None, None)
    assert fresh["status"] == "created"


async def test_facts_for_a_session_that_is_not_there_make_none(lesson_client: LessonClient) -> None:
    """B36, B-R5: a resume of an unknown thread is 404, and nothing is begun in its stead."""
    nowhere = LessonClient(lesson_client.http, f"gone-{new_id()}")
    assert (await nowhere.post(TOOLS, messages=user("go"), selectedFacts=[{"id": "f"}])).status_code == 404
    assert (await lesson_client.http.get(SESSION, headers=nowhere.session_header)).status_code == 404
    assert (await lesson_client.http.delete(SESSION, headers=nowhere.session_header)).status_code == 404
    assert (await lesson_client.http.get(SESSION)).status_code == 400


async def test_a_chat_message_while_a_choice_waits_loses_no_facts(lesson_client: LessonClient) -> None:
    """B54, B-R13."""
    found = await lesson_client.send(TEXT)
    told = await lesson_client.send("What is chlorophyll good for?")
    assert told["message"]
    assert told["workflowStep"] == "selection"
    assert [fact["id"] for fact in told["facts"]] == [fact["id"] for fact in found["facts"]]
    assert (await lesson_client.choose_facts(1, 2))["status"] == "script_generated"


async def test_facts_that_nobody_asked_for_are_confirmed_before_the_model_runs(
    lesson_client: LessonClient,
) -> None:
    """B33: in a new session, and once more with others, where the narration is written anew."""
    fact = {"concept": "Bees", "details": "Bees visit flowers to collect nectar and pollen."}
    made = await lesson_client.choose_facts(fact)
    assert made["status"] == "script_generated"
    assert [one["concept"] for one in made["confirmedFacts"]] == ["Bees"]
    more = {"concept": "Wax", "details": "Bees build their combs from wax."}
    again = await lesson_client.choose_facts(fact, more)
    assert [one["concept"] for one in again["confirmedFacts"]] == ["Bees", "Wax"]
    assert "wax" in json.dumps(again["narration"])


async def test_a_tool_that_fails_does_not_fail_the_request(lesson_client: LessonClient) -> None:
    """B32."""
    told = await lesson_client.send("Here is the lesson: https://example.org/lesson")
    assert (told["type"], told["success"]) == ("tool-result", False)
    assert told["message"].startswith("Failed: ")
    assert "offline" in told["message"]
    assert told["workflowStep"] == "input"


async def test_nothing_said_and_nothing_chosen_is_refused_without_a_session(
    lesson_client: LessonClient,
) -> None:
    bodies: tuple[dict[str, Any], ...] = (
        {},
        {"messages": []},
        {"messages": user("  ")},
        {"messages": [{"role": "assistant", "content": "x"}]},
    )
    for body in bodies:
        reply = await lesson_client.http.post(TOOLS, json=body)
        assert reply.status_code == 400
        assert "X-Session-Id" not in reply.headers


async def test_sessions_are_listed_and_deleted_with_everything(lesson_client: LessonClient, url: str) -> None:
    """B38: the list has them newest first; of a deleted one nothing is left."""
    await lesson_client.create_narration()
    other = LessonClient(lesson_client.http)
    await other.send("My student is 7.")
    page = ok(await lesson_client.http.get("/api/agent-create/sessions", params={"limit": 1}))
    assert [session["id"] for session in page["sessions"]] == [other.session_id]
    rest = ok(
        await lesson_client.http.get("/api/agent-create/sessions", params={"limit": 1, "after": page["next"]})
    )
    far = await lesson_client.http.get("/api/agent-create/sessions", params={"after": 10**27})
    assert far.status_code == 400, far.text
    [line] = rest["sessions"]
    assert (line["id"], line["status"], line["workflowStep"]) == (
        lesson_client.session_id,
        "script_generated",
        "review",
    )
    assert ok(await lesson_client.request("DELETE", SESSION)) == {"deleted": lesson_client.session_id}
    assert (await lesson_client.request("GET", SESSION)).status_code == 404
    assert (await lesson_client.http.get(f"/threads/{lesson_client.session_id}")).status_code == 404
    listed = ok(await lesson_client.http.get("/api/agent-create/sessions", params={"limit": 100}))
    assert lesson_client.session_id not in {session["id"] for session in listed["sessions"]}


async def test_a_session_is_a_thread_like_any_other(lesson_client: LessonClient) -> None:
    """B43, B50, B67: visible with its question, which the LangGraph wire answers too."""
    found = await lesson_client.send(TEXT)
    thread = ok(await lesson_client.http.get(f"/threads/{lesson_client.session_id}"))
    assert thread["status"] == "interrupted"
    [[asked]] = thread["interrupts"].values()
    assert asked["id"] == found["interrupt"]["id"]
    answer = {"assistant_id": "fact_narration", "command": {"resume": "1 and 2"}}
    await lesson_client.http.post(f"/threads/{lesson_client.session_id}/runs/wait", json=answer)
    seen = await lesson_client.get_session()
    assert len(seen["confirmedFacts"]) == 2
    assert seen["workflowStep"] == "review"


async def test_a_narration_is_approved_where_that_is_wanted(lesson_client: LessonClient) -> None:
    """B-R16: off unless asked for; then the narration waits for one more answer."""
    found = await lesson_client.send(TEXT, review=True)
    told = await lesson_client.choose_facts(*found["facts"][:2])
    assert told["narration"]
    assert told["interrupt"]["value"]["type"] != found["interrupt"]["value"]["type"]
    assert told["workflowStep"] == "review"
    approved = ok(await lesson_client.post(TOOLS, messages=[], decisions=[{"type": "approve"}]))
    assert approved["interrupt"] is None
    assert approved["narration"] == told["narration"]
    nothing = await lesson_client.post(TOOLS, messages=[], decisions=[{"type": "approve"}])
    assert nothing.status_code == 409


async def test_the_same_choice_sent_twice_is_one_narration(lesson_client: LessonClient) -> None:
    found = await lesson_client.send(TEXT)
    body = {"messages": [], "selectedFacts": [found["facts"][0]["id"]], "provider": "offline"}
    first = ok(
        await lesson_client.http.post(
            TOOLS, json=body, headers={**lesson_client.session_header, "Idempotency-Key": "k1"}
        )
    )
    again = ok(
        await lesson_client.http.post(
            TOOLS, json=body, headers={**lesson_client.session_header, "Idempotency-Key": "k1"}
        )
    )
    assert again == first
    listed = ok(await lesson_client.request("GET", f"{SESSION}/narration/versions"))
    assert [version["id"] for version in listed["versions"]] == ["v1"]


async def test_a_turn_can_be_followed_as_it_goes(lesson_client: LessonClient) -> None:
    """B59: streamed where that is asked for."""
    headers = {"Accept": "text/event-stream"}
    body = {"messages": user(TEXT), "provider": "offline"}
    async with lesson_client.http.stream("POST", TOOLS, json=body, headers=headers) as reply:
        assert reply.headers["X-Session-Id"]
        text = (await reply.aread()).decode()
    assert "event: step" in text
    result = json.loads(text.split("event: result\ndata: ")[1].split("\n\n")[0])
    assert result["workflowStep"] == "selection"


async def test_a_step_that_no_version_tells_is_noted_until_something_new_is_made(
    lesson_client: LessonClient,
) -> None:
    """B44, B-R15."""
    told = await lesson_client.create_narration()

    async def become(status: str) -> httpx.Response:
        return await lesson_client.request("PATCH", SESSION, json={"status": status})

    assert ok(await become("narration_verified"))["status"] == "narration_verified"
    assert ok(await become("video_queued"))["status"] == "video_queued"
    edit = {"segments": [{"id": "hook", "narration": "Look at this leaf!"}]}
    closed = await lesson_client.request("PATCH", f"{SESSION}/narration", json=edit)
    assert closed.status_code == 409
    assert (await become("narration_verified")).status_code == 409
    assert ok(await become("completed"))["status"] == "completed"
    assert (await become("failed")).status_code == 409
    again = await lesson_client.choose_facts(*told["facts"][:2])
    assert again["status"] == "script_generated"


async def test_the_student_is_noted_by_hand(lesson_client: LessonClient) -> None:
    """B3, B64, B-R11: each field alone, the others stay; the next narration is for that student."""
    found = await lesson_client.send(TEXT)
    noted = await patched(lesson_client, childAge="7", childInterest="trains")
    assert (noted["childAge"], noted["childInterest"], noted["learningStyle"]) == ("7", "trains", None)
    noted = await patched(lesson_client, learningStyle="hands-on")
    assert (noted["childAge"], noted["learningStyle"]) == ("7", "hands-on")
    assert noted["waitsFor"] == "select_facts"
    told = (await lesson_client.choose_facts(*found["facts"][:2]))["narration"]
    assert told["reading_level"] == "3.5"
    assert all("own hands" in segment["visual_guidance"] for segment in told["segments"])
    assert "trains" in json.dumps(told)
    assert (await patched(lesson_client, childAge=10))["childAge"] == "10"
    for bad in ({}, {"childAge": ""}, {"childAge": -1}, {"learningStyle": "x" * 201}, {"shoeSize": "38"}):
        assert (await lesson_client.request("PATCH", SESSION, json=bad)).status_code == 400
    for age in (True, [7]):
        reply = await lesson_client.request("PATCH", SESSION, json={"childAge": age})
        assert reply.status_code == 422


async def test_a_fault_in_a_list_is_named_as_it_was_sent(lesson_client: LessonClient) -> None:
    """A81: no name of a type that nobody sent."""
    for wrong, places in (
        (None, ["selectedFacts.0"]),
        ({"id": []}, ["selectedFacts.0.id", "selectedFacts.0"]),
    ):
        reply = await lesson_client.post(TOOLS, messages=[], selectedFacts=[wrong])
        assert f"'{places[0]}'" in reply.json()["error"]
        assert reply.json()["details"]["fields"] == places


async def test_a_truth_value_is_no_number_of_a_fact(lesson_client: LessonClient) -> None:
    """B33, B52: true is not fact 1."""
    await lesson_client.send(TEXT)
    for wrong in (True, 1.5, None):
        reply = await lesson_client.post(TOOLS, messages=[], selectedFacts=[wrong])
        assert reply.status_code == 422, wrong
        assert "selectedFacts" in reply.text
    assert (await lesson_client.choose_facts(1))["status"] == "script_generated"


async def patched(lesson_client: LessonClient, **news: Any) -> dict[str, Any]:
    return ok(await lesson_client.request("PATCH", SESSION, json=news))


async def test_a_length_said_with_the_material_is_that_of_the_narration(lesson_client: LessonClient) -> None:
    """B-R8, B56: until another is said."""
    found = await lesson_client.send("My student is 10. Make it 90 seconds.\n\n" + TEXT)
    assert (await lesson_client.choose_facts(1, 2))["narration"]["total_duration"] == 90
    assert (await lesson_client.send("make it two minutes"))["narration"]["total_duration"] == 120
    again = await lesson_client.send("Here is another text:\n\n" + material("the_moon").text)
    assert again["topic"] != found["topic"]
    assert (await lesson_client.choose_facts(1, 2))["narration"]["total_duration"] == 120
