"""Lessons over REST: messages, choices, narrations and sessions."""

import asyncio
import json
from typing import Any

import httpx

from callsheet.graphs import fact_narration
from callsheet.providers.speech import local_rate
from callsheet.state.lessons import student
from tests.doubles.wire_served import new_id
from tests.lessons.lesson_client import NARRATION, SESSION, TOOLS, LessonClient, ok, user
from tests.lessons.lesson_material import material

TEXT = material("photosynthesis").text
GRAPHS = {"fact_narration": fact_narration.graph}


async def test_a_text_leads_to_facts_and_their_choice_to_a_narration(lesson_client: LessonClient) -> None:
    """B24, B27, B28, B33, B45-B49, B69, B-R3: flat fields, and the tool's output as a string."""
    reply = await lesson_client.http.post(
        TOOLS, json={"messages": user("My student is 10 and loves soccer.\n\n" + TEXT)}
    )
    body = ok(reply)
    assert body["sessionId"] == reply.headers["X-Session-Id"]
    lesson_client.session_id = body["sessionId"]
    assert (body["type"], body["success"], body["workflowStep"]) == ("tool-result", True, "selection")
    assert (body["childAge"], body["childInterest"], body["topic"]) == ("10", "soccer", "Photosynthesis")
    assert body["learningObjective"]
    assert body["showFactSelectionPrompt"]
    assert not body["showNarrationReviewPrompt"]
    assert 5 <= len(body["facts"]) <= 15
    assert json.loads(body["output"])["facts"] == body["facts"]
    assert body["message"].startswith("I found 7 facts about Photosynthesis.")
    assert body["interrupt"]["value"]["facts"][0]["id"] == body["facts"][0]["id"]
    edited_fact = {**body["facts"][2], "details": "Leaves are green."}
    choice_reply = await lesson_client.post(
        TOOLS, messages=[], selectedFacts=[body["facts"][0]["id"], edited_fact]
    )
    narrated = ok(choice_reply)
    assert "X-Session-Id" not in choice_reply.headers
    assert (narrated["success"], narrated["workflowStep"], narrated["status"]) == (
        True,
        "review",
        "script_generated",
    )
    assert [fact["id"] for fact in narrated["confirmedFacts"]] == [body["facts"][0]["id"], edited_fact["id"]]
    assert "Leaves are green." in json.dumps(narrated["narration"])
    assert json.loads(narrated["output"])["narration"]["segments"] == narrated["narration"]["segments"]
    assert narrated["showNarrationReviewPrompt"]
    assert narrated["interrupt"] is None


async def test_a_session_is_shown_to_another_client_by_its_id(lesson_client: LessonClient) -> None:
    """B26, B38, B39, B41, B43, B45: with its lesson, messages and tool calls."""
    await lesson_client.send("My student is 10 and loves soccer.")
    reply = await lesson_client.create_narration()
    view = await LessonClient(lesson_client.http, lesson_client.session_id).get_session()
    lesson = view["session"]
    assert set(lesson) == {
        *("id", "userId", "status", "topic", "childAge", "childInterest", "learningObjective"),
        *("extractedFacts", "confirmedFacts", "generatedScript", "sourceMaterials", "createdAt", "updatedAt"),
    }
    assert (lesson["id"], lesson["userId"], lesson["status"]) == (
        lesson_client.session_id,
        "local",
        "script_generated",
    )
    assert lesson["generatedScript"] == reply["narration"]
    assert len(lesson["confirmedFacts"]) == 3 < len(lesson["extractedFacts"])
    assert lesson["createdAt"] <= lesson["updatedAt"]
    assert view["workflowStep"] == "review"
    messages = view["messages"]
    assert messages[0]["content"] == "My student is 10 and loves soccer."
    assert {message["role"] for message in messages} == {"user", "assistant"}
    assert all(
        message["sessionId"] == lesson_client.session_id and message["createdAt"] for message in messages
    )
    assert [message["createdAt"] for message in messages] == sorted(
        message["createdAt"] for message in messages
    )
    parts = [
        part for message in messages for part in message["parts"] or () if part["type"].startswith("tool-")
    ]
    assert "tool-extractFactsTool" in {part["type"] for part in parts}
    assert all(part["state"] == "output-available" for part in parts)


async def test_a_chat_message_is_answered_with_text_and_no_tool_output(lesson_client: LessonClient) -> None:
    """B25, B29, B34: at the alternative endpoint; earlier messages in the request are ignored."""
    earlier_messages = [{"role": "user", "content": TEXT}, {"role": "assistant", "content": "Yes?"}]
    reply = await lesson_client.post(
        "/api/agent-create", messages=[*earlier_messages, *user("Hello! What can you do?")]
    )
    body = ok(reply)
    assert (body["type"], body["output"], body["success"], body["workflowStep"]) == (
        "text",
        None,
        True,
        "input",
    )
    assert body["message"]
    assert body["facts"] == []


async def test_the_session_id_is_taken_from_the_header_then_the_body_then_the_query(
    lesson_client: LessonClient,
) -> None:
    """B35, B37: an unknown id starts a new session."""
    await lesson_client.send("My student is 7.")
    known, unknown = str(lesson_client.session_id), f"unknown-{new_id()}"
    for header, body, query, expected in [
        (known, unknown, unknown, known),
        (None, known, unknown, known),
        (None, None, known, known),
        (None, None, None, None),
        (unknown, known, known, None),
    ]:
        reply = await lesson_client.http.post(
            TOOLS,
            json={"messages": user("Hello!"), "sessionId": body},
            headers={"X-Session-Id": header} if header else {},
            params={"sessionId": query} if query else {},
        )
        reply_body = ok(reply)
        if expected:
            assert reply_body["sessionId"] == expected
            assert "X-Session-Id" not in reply.headers
        else:
            assert reply_body["sessionId"] not in {known, unknown}
            assert reply.headers["X-Session-Id"] == reply_body["sessionId"]


async def test_a_new_session_has_no_data_of_another(lesson_client: LessonClient) -> None:
    """B68."""
    await lesson_client.create_narration()
    reply = await LessonClient(lesson_client.http).send("Hello!")
    assert reply["sessionId"] != lesson_client.session_id
    assert (reply["facts"], reply["narration"], reply["childAge"], reply["topic"]) == ([], None, None, None)
    assert reply["status"] == "created"


async def test_a_choice_of_facts_for_an_unknown_session_is_404(lesson_client: LessonClient) -> None:
    """B36, B-R5: no session begins instead."""
    unknown = LessonClient(lesson_client.http, f"gone-{new_id()}")
    assert (await unknown.post(TOOLS, messages=user("go"), selectedFacts=[{"id": "f"}])).status_code == 404
    assert (await lesson_client.http.get(SESSION, headers=unknown.session_header)).status_code == 404
    assert (await lesson_client.http.delete(SESSION, headers=unknown.session_header)).status_code == 404
    assert (await lesson_client.http.get(SESSION)).status_code == 422


async def test_a_chat_message_while_a_choice_is_pending_keeps_the_facts(lesson_client: LessonClient) -> None:
    """B54, B-R13."""
    facts_reply = await lesson_client.send(TEXT)
    chat_reply = await lesson_client.send("What is chlorophyll good for?")
    assert chat_reply["message"]
    assert chat_reply["workflowStep"] == "selection"
    assert [fact["id"] for fact in chat_reply["facts"]] == [fact["id"] for fact in facts_reply["facts"]]
    assert (await lesson_client.choose_facts(1, 2))["status"] == "script_generated"


async def test_facts_sent_without_a_question_are_confirmed_and_narrated(lesson_client: LessonClient) -> None:
    """B33: in a new session, and again with other facts, for which a new narration is written."""
    bees = {"concept": "Bees", "details": "Bees visit flowers to collect nectar and pollen."}
    reply = await lesson_client.choose_facts(bees)
    assert reply["status"] == "script_generated"
    assert [fact["concept"] for fact in reply["confirmedFacts"]] == ["Bees"]
    wax = {"concept": "Wax", "details": "Bees build their combs from wax."}
    second_reply = await lesson_client.choose_facts(bees, wax)
    assert [fact["concept"] for fact in second_reply["confirmedFacts"]] == ["Bees", "Wax"]
    assert "wax" in json.dumps(second_reply["narration"])


async def test_a_failed_tool_is_reported_in_a_successful_reply(lesson_client: LessonClient) -> None:
    """B32."""
    reply = await lesson_client.send("Here is the lesson: https://example.org/lesson")
    assert (reply["type"], reply["success"]) == ("tool-result", False)
    assert reply["message"].startswith("Failed: ")
    assert "offline" in reply["message"]
    assert reply["workflowStep"] == "input"


async def test_a_request_without_text_and_without_facts_is_refused_and_starts_no_session(
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
        assert reply.status_code == 422
        assert "X-Session-Id" not in reply.headers


async def test_sessions_are_listed_newest_first_and_deleted_with_all_their_data(
    lesson_client: LessonClient, url: str
) -> None:
    """B38."""
    await lesson_client.create_narration()
    other = LessonClient(lesson_client.http)
    await other.send("My student is 7.")
    first_page = ok(await lesson_client.http.get("/api/agent-create/sessions", params={"limit": 1}))
    assert [session["id"] for session in first_page["sessions"]] == [other.session_id]
    second_page = ok(
        await lesson_client.http.get(
            "/api/agent-create/sessions", params={"limit": 1, "after": first_page["next"]}
        )
    )
    too_far = await lesson_client.http.get("/api/agent-create/sessions", params={"after": 10**27})
    assert too_far.status_code == 422, too_far.text
    [entry] = second_page["sessions"]
    assert (entry["id"], entry["status"], entry["workflowStep"]) == (
        lesson_client.session_id,
        "script_generated",
        "review",
    )
    assert ok(await lesson_client.request("DELETE", SESSION)) == {"deleted": lesson_client.session_id}
    assert (await lesson_client.request("GET", SESSION)).status_code == 404
    assert (await lesson_client.http.get(f"/threads/{lesson_client.session_id}")).status_code == 404
    all_pages = ok(await lesson_client.http.get("/api/agent-create/sessions", params={"limit": 100}))
    assert lesson_client.session_id not in {session["id"] for session in all_pages["sessions"]}


async def test_a_session_is_a_thread_whose_question_is_answered_over_langgraphs_api(
    lesson_client: LessonClient,
) -> None:
    """B43, B50, B67."""
    facts_reply = await lesson_client.send(TEXT)
    thread = ok(await lesson_client.http.get(f"/threads/{lesson_client.session_id}"))
    assert thread["status"] == "interrupted"
    [[interrupt]] = thread["interrupts"].values()
    assert interrupt["id"] == facts_reply["interrupt"]["id"]
    answer = {"assistant_id": "fact_narration", "command": {"resume": "1 and 2"}}
    await lesson_client.http.post(f"/threads/{lesson_client.session_id}/runs/wait", json=answer)
    session = await lesson_client.get_session()
    assert len(session["confirmedFacts"]) == 2
    assert session["workflowStep"] == "review"


async def test_a_narration_waits_for_approval_if_the_request_wants_a_review(
    lesson_client: LessonClient,
) -> None:
    """B-R16: off by default."""
    facts_reply = await lesson_client.send(TEXT, review=True)
    narrated = await lesson_client.choose_facts(*facts_reply["facts"][:2])
    assert narrated["narration"]
    assert narrated["interrupt"]["value"]["type"] != facts_reply["interrupt"]["value"]["type"]
    assert narrated["workflowStep"] == "review"
    approved = ok(await lesson_client.post(TOOLS, messages=[], decisions=[{"type": "approve"}]))
    assert approved["interrupt"] is None
    assert approved["narration"] == narrated["narration"]
    second_approval = await lesson_client.post(TOOLS, messages=[], decisions=[{"type": "approve"}])
    assert second_approval.status_code == 409


async def test_a_choice_sent_twice_with_one_idempotency_key_makes_one_narration(
    lesson_client: LessonClient,
) -> None:
    facts_reply = await lesson_client.send(TEXT)
    body = {"messages": [], "selectedFacts": [facts_reply["facts"][0]["id"]], "provider": "offline"}
    first = ok(
        await lesson_client.http.post(
            TOOLS, json=body, headers={**lesson_client.session_header, "Idempotency-Key": "k1"}
        )
    )
    second = ok(
        await lesson_client.http.post(
            TOOLS, json=body, headers={**lesson_client.session_header, "Idempotency-Key": "k1"}
        )
    )
    assert second == first
    versions = ok(await lesson_client.request("GET", f"{SESSION}/narration/versions"))
    assert [version["id"] for version in versions["versions"]] == ["v1"]


async def test_equal_choices_at_once_make_one_narration(lesson_client: LessonClient) -> None:
    """X9: without an idempotency key, too; each has the reply."""
    facts_reply = await lesson_client.send(TEXT)
    facts = facts_reply["facts"][:3]
    replies = await asyncio.gather(
        *(lesson_client.post(TOOLS, messages=[], selectedFacts=facts) for _ in range(5))
    )
    assert [reply.status_code for reply in replies] == [200] * 5
    versions = ok(await lesson_client.request("GET", f"{SESSION}/narration/versions"))
    assert [version["id"] for version in versions["versions"]] == ["v1"]


async def test_a_turn_is_streamed_as_events_if_the_request_accepts_them(lesson_client: LessonClient) -> None:
    """B59."""
    headers = {"Accept": "text/event-stream"}
    body = {"messages": user(TEXT), "provider": "offline"}
    async with lesson_client.http.stream("POST", TOOLS, json=body, headers=headers) as reply:
        assert reply.headers["X-Session-Id"]
        text = (await reply.aread()).decode()
    assert "event: step" in text
    result = json.loads(text.split("event: result\ndata: ")[1].split("\n\n")[0])
    assert result["workflowStep"] == "selection"


async def test_a_status_set_by_the_client_stays_until_a_new_version_is_made(
    lesson_client: LessonClient,
) -> None:
    """B44, B-R15: only allowed steps are accepted, and a queued video closes the narration."""
    narrated = await lesson_client.create_narration()

    async def set_status(status: str) -> httpx.Response:
        return await lesson_client.request("PATCH", SESSION, json={"status": status})

    assert ok(await set_status("narration_verified"))["status"] == "narration_verified"
    assert ok(await set_status("video_queued"))["status"] == "video_queued"
    edit = {"segments": [{"id": "hook", "narration": "Look at this leaf!"}]}
    edit_reply = await lesson_client.request("PATCH", f"{SESSION}/narration", json=edit)
    assert edit_reply.status_code == 409
    assert (await set_status("narration_verified")).status_code == 409
    assert ok(await set_status("completed"))["status"] == "completed"
    assert (await set_status("failed")).status_code == 409
    next_reply = await lesson_client.choose_facts(*narrated["facts"][:2])
    assert next_reply["status"] == "script_generated"


async def test_an_edit_of_an_older_narration_is_refused(lesson_client: LessonClient) -> None:
    await lesson_client.create_narration()
    edit = {"segments": [{"id": "hook", "narration": "Look at this leaf!"}], "version": "v1"}
    saved = ok(await lesson_client.request("PATCH", f"{SESSION}/narration", json=edit))
    assert saved["versionId"] == "v2"
    late = await lesson_client.request("PATCH", f"{SESSION}/narration", json=edit)
    assert (late.status_code, late.json()["error"]) == (409, "the narration is v2 by now, not v1")


async def test_the_student_is_set_field_by_field_and_the_next_narration_is_for_them(
    lesson_client: LessonClient,
) -> None:
    """B3, B64, B-R11."""
    facts_reply = await lesson_client.send(TEXT)
    session = await patch_session(lesson_client, childAge="7", childInterest="trains")
    assert (session["childAge"], session["childInterest"], session["learningStyle"]) == ("7", "trains", None)
    session = await patch_session(lesson_client, learningStyle="hands-on")
    assert (session["childAge"], session["learningStyle"]) == ("7", "hands-on")
    assert session["waitsFor"] == "select_facts"
    narration = (await lesson_client.choose_facts(*facts_reply["facts"][:2]))["narration"]
    assert narration["reading_level"] == "3.5"
    assert all("own hands" in segment["visual_guidance"] for segment in narration["segments"])
    assert "trains" in json.dumps(narration)
    assert (await patch_session(lesson_client, childAge=10))["childAge"] == "10"
    for bad_fields in (
        {},
        {"childAge": ""},
        {"childAge": -1},
        {"learningStyle": "x" * 201},
        {"shoeSize": "38"},
    ):
        assert (await lesson_client.request("PATCH", SESSION, json=bad_fields)).status_code == 422
    for age in (True, [7]):
        reply = await lesson_client.request("PATCH", SESSION, json={"childAge": age})
        assert reply.status_code == 422


async def test_a_validation_error_in_a_list_names_only_the_fields_that_were_sent(
    lesson_client: LessonClient,
) -> None:
    """A81: and no name of an internal type."""
    for bad_fact, fields in (
        (None, ["selectedFacts.0"]),
        ({"id": []}, ["selectedFacts.0.id", "selectedFacts.0"]),
    ):
        reply = await lesson_client.post(TOOLS, messages=[], selectedFacts=[bad_fact])
        assert f"'{fields[0]}'" in reply.json()["error"]
        assert reply.json()["details"]["fields"] == fields


async def test_a_boolean_is_no_number_of_a_fact(lesson_client: LessonClient) -> None:
    """B33, B52: true is not fact 1."""
    await lesson_client.send(TEXT)
    for bad_fact in (True, 1.5, None):
        reply = await lesson_client.post(TOOLS, messages=[], selectedFacts=[bad_fact])
        assert reply.status_code == 422, bad_fact
        assert "selectedFacts" in reply.text
    assert (await lesson_client.choose_facts(1))["status"] == "script_generated"


async def patch_session(lesson_client: LessonClient, **fields: Any) -> dict[str, Any]:
    return ok(await lesson_client.request("PATCH", SESSION, json=fields))


async def test_a_narration_has_the_length_named_with_the_material(lesson_client: LessonClient) -> None:
    """B-R8, B56: also later narrations, until another length is named."""
    first_facts = await lesson_client.send("My student is 10. Make it 90 seconds.\n\n" + TEXT)
    assert (await lesson_client.choose_facts(1, 2))["narration"]["total_duration"] == 90
    refused = await lesson_client.send("make it two minutes")
    assert (refused["success"], refused["narration"]["total_duration"]) == (False, 90)
    assert "wrote the same words again" in refused["message"]
    second_facts = await lesson_client.send("Here is another text:\n\n" + material("the_moon").text)
    assert second_facts["topic"] != first_facts["topic"]
    assert (await lesson_client.choose_facts(1, 2))["narration"]["total_duration"] == 90


async def test_another_length_keeps_the_segments_that_a_person_changed(lesson_client: LessonClient) -> None:
    """By hand, or by a request about that part alone; the rest is written for the new length."""
    proposed = await lesson_client.send(TEXT)
    await lesson_client.choose_facts(*proposed["facts"])
    shortened = await lesson_client.send("make the hook shorter")
    assert shortened["message"].startswith("Rewritten: hook")
    words = "Now you know why leaves are green."
    edit = [{"id": "conclusion", "narration": words}]
    ok(await lesson_client.request("PATCH", NARRATION, json={"segments": edit}))
    before = (await lesson_client.get_session())["narration"]["segments"]
    reply = await lesson_client.send("make it 150 seconds")
    after = reply["narration"]["segments"]
    assert [one["type"] for one in after] == [one["type"] for one in before]
    assert (after[0]["narration"], after[3]["narration"]) == (before[0]["narration"], words)
    assert [one["narration"] for one in after[1:3]] != [one["narration"] for one in before[1:3]]
    for kept in (after[0], after[3]):
        assert kept["duration"] - kept["speech_duration"] < 0.75, "no more seconds than its words need"
    ends = [one["start_time"] + one["duration"] for one in after]
    assert [0, *ends] == [*(one["start_time"] for one in after), 150]
    kept_words = (
        "Kept as you changed it: conclusion; kept as you asked for it: hook; name it to have it written"
    )
    assert kept_words in reply["message"]
    assert reply["narration"]["warnings"] == []
    longer = "Take a leaf in your hand and hold it against the light: why do you think is it green?"
    edit = [{"id": "hook", "narration": longer}]
    edited = ok(await lesson_client.request("PATCH", NARRATION, json={"segments": edit}))["narration"][
        "segments"
    ]
    assert (edited[0]["duration"], edited[3]["narration"]) == (25, words), "its usual time is free for it"
    assert edited[3]["start_time"] + edited[3]["duration"] == 150
    again = await lesson_client.send("make it two minutes")
    assert "Kept as you changed it: hook, conclusion; name it to have it written again." in again["message"]


async def test_a_segment_that_the_model_wrote_again_without_a_wish_is_not_kept(
    lesson_client: LessonClient,
) -> None:
    await lesson_client.create_narration()
    again = {"action": "regenerate", "segments": ["hook"]}
    ok(await lesson_client.request("POST", NARRATION, json=again))
    reply = await lesson_client.send("make it 40 seconds")
    assert "Kept" not in reply["message"]


async def test_a_wish_for_one_segment_that_has_no_room_in_a_shorter_narration_is_named(
    lesson_client: LessonClient,
) -> None:
    await lesson_client.create_narration()
    await lesson_client.send("make the explanation longer")
    reply = await lesson_client.send("make it 30 seconds")
    warning = "written again although you had asked for it in other words: process explanation; v2 has them"
    assert warning in reply["warnings"]


async def test_a_segment_that_a_person_changed_is_named_where_it_is_written_again(
    lesson_client: LessonClient,
) -> None:
    """It has no room in a shorter narration; the version with its words is named."""
    await lesson_client.create_narration()
    words = (
        "Why are the leaves of nearly all the trees in every wood and garden of this country so very green?"
    )
    edit = [{"id": "hook", "narration": words}]
    ok(await lesson_client.request("PATCH", NARRATION, json={"segments": edit, "version": "v1"}))
    reply = await lesson_client.send("make it 40 seconds")
    assert words not in json.dumps(reply["narration"])
    warning = "written again although you had changed it: hook; v2 has your words"
    assert warning in reply["narration"]["warnings"]
    other = {"segments": [{"id": "conclusion", "narration": "Leaves are green."}]}
    edited = ok(await lesson_client.request("PATCH", NARRATION, json=other))
    assert warning in edited["narration"]["warnings"]
    shorter = {"segments": [{"id": "hook", "narration": "Why are leaves green?"}]}
    edited = ok(await lesson_client.request("PATCH", NARRATION, json=shorter))
    assert warning not in edited["narration"]["warnings"], "the person has put words in it again"
    again = await lesson_client.send("make it 90 seconds")
    assert warning not in again["narration"]["warnings"]


async def test_the_reading_level_is_that_of_the_words_after_an_edit_by_hand(
    lesson_client: LessonClient,
) -> None:
    """The grade of a narration is computed from its words, whoever changed them; a file has the same."""
    narrated = await lesson_client.create_narration()
    hard = "Photosynthetic organisms characteristically manufacture carbohydrates autotrophically."
    edits = [{"id": one["id"], "narration": hard} for one in narrated["narration"]["segments"]]
    ok(await lesson_client.request("PATCH", NARRATION, json={"segments": edits}))
    shown = (await lesson_client.get_session())["narration"]
    grade = student.grade(" ".join([hard] * 4))
    assert shown["readability"] == {"formula": student.FORMULA, "grade": grade, "within": False}
    assert f"the words are of grade {grade:g}, harder than" in shown["warnings"][-1]
    text = (await lesson_client.request("GET", f"{NARRATION}?format=md")).text
    assert f"reading level: target grade {shown['reading_level']}, measured grade {grade:g}" in text
    ok(
        await lesson_client.request(
            "PATCH", NARRATION, json={"segments": [{**one, "narration": "It is so."} for one in edits]}
        )
    )
    assert (await lesson_client.get_session())["narration"]["warnings"] == []


async def test_the_length_of_speech_is_an_estimate_until_the_narration_was_rendered(
    lesson_client: LessonClient,
) -> None:
    reply = await lesson_client.create_narration()
    seconds = sum(one["speech_duration"] for one in reply["narration"]["segments"])
    seconds *= 2.2 / (local_rate("english") or 2.2)
    words = f"planned for 60 s, about {seconds:.0f} s of it spoken, by estimate"
    assert f"The narration is ready, with 4 segments: {words}." in reply["message"]
    assert reply["speech"] == words
    session = await lesson_client.get_session()
    assert (session["speech"], session["segmentTimes"]) == (words, None)
    text = (await lesson_client.request("GET", f"{NARRATION}?format=md")).text
    assert text.splitlines()[2].startswith(f"{words} · reading level")
