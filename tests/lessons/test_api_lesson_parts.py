"""The materials and the narration of a lesson over REST: brought, edited, written again, exported."""

import json
from typing import Any

import pytest

from callsheet.graphs import fact_narration
from callsheet.state.lessons.narration import Narration
from tests.doubles.pdf_writer import pdf, pdf_from_streams
from tests.doubles.served import parse_events
from tests.lessons.lesson_client import NARRATION, SESSION, SOURCE, TOOLS, LessonClient, ok, user
from tests.lessons.lesson_material import material

TEXT = material("photosynthesis").text


GRAPHS = {"fact_narration": fact_narration.graph}


def segments(told: dict[str, Any]) -> dict[str, str]:
    """Each segment of a narration as it is written, to the byte."""
    return {one["id"]: json.dumps(one) for one in told["narration"]["segments"]}


async def test_a_text_that_was_added_is_what_is_read(lesson_client: LessonClient) -> None:
    """B5, B38, B42: the material is kept apart, and no message holds it."""
    reply = await lesson_client.http.post(SOURCE, json={"text": TEXT, "name": "leaves.txt"})
    kept = ok(reply, 201)
    lesson_client.session = reply.headers["X-Session-Id"]
    assert (kept["sessionId"], kept["kind"], kept["name"]) == (lesson_client.session, "text", "leaves.txt")
    found = await lesson_client.says("Find the facts in the text")
    assert found["topic"] == "Photosynthesis"
    seen = await lesson_client.sees()
    assert "chlorophyll" in seen["session"]["sourceMaterials"]["text"]
    assert "chlorophyll" not in " ".join(one["content"] for one in seen["messages"])


@pytest.mark.slow
async def test_a_pdf_is_read_page_by_page_and_gives_the_facts_of_its_words(
    lesson_client: LessonClient,
) -> None:
    """B4, B5, B38: the file itself is kept, and can be got back."""
    data = pdf(TEXT, rows=12)
    headers = {"Accept": "text/event-stream"}
    reply = await lesson_client.http.post(
        f"{SOURCE}/files", params={"fileName": "leaves.pdf"}, content=data, headers=headers
    )
    lesson_client.session = reply.headers["X-Session-Id"]
    told = parse_events(reply.text)
    pages = [one["done"] for name, one in told if name == "step"]
    kept = told[-1][1]
    assert told[-1][0] == "result", told
    assert pages == list(range(1, kept["pages"] + 1))
    assert kept["pages"] > 1
    found = await lesson_client.says("Find the facts in the PDF I uploaded")
    pasted = await LessonClient(lesson_client.http).says(TEXT)
    assert [one["id"] for one in found["facts"]] == [one["id"] for one in pasted["facts"]]
    url = (await lesson_client.sees())["session"]["sourceMaterials"]["pdfUrl"]
    back = await lesson_client.http.get(url)
    assert back.content == data
    assert back.headers["Content-Type"] == "application/pdf"
    assert "attachment" in back.headers["Content-Disposition"]
    stranger = await LessonClient(lesson_client.http).says("Hello!")
    other = await lesson_client.http.get(
        url.partition("?")[0], headers={"X-Session-Id": stranger["sessionId"]}
    )
    assert other.status_code == 404


@pytest.mark.parametrize(
    ("name", "content", "status", "words"),
    [
        ("notes.docx", b"PK", 400, "no PDF and no text"),
        ("../notes.txt", b"x", 400, "not a plain file name"),
        ("notes.pdf", b"Leaves are green, all of them.", 400, "contains txt, not pdf"),
        ("notes.txt", b"", 400, "is empty"),
        ("notes.txt", b"\xff\xfe\x00", 400, ""),
        ("notes.txt", b"Hi.", 400, "too few"),
        pytest.param("scan.pdf", pdf_from_streams([b"q Q"]), 400, "was scanned", marks=pytest.mark.slow),
    ],
)
async def test_a_file_that_no_lesson_can_be_made_of_is_refused(
    lesson_client: LessonClient, name: str, content: bytes, status: int, words: str
) -> None:
    reply = await lesson_client.http.post(f"{SOURCE}/files", params={"fileName": name}, content=content)
    assert reply.status_code == status, reply.text
    assert words in reply.json()["error"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "0 materials"),
        ({"text": "a", "url": "https://example.org/"}, "2 materials"),
        ({"url": "leaves"}, "no web address"),
        ({"url": "http://127.0.0.1:9/"}, "127.0.0.1"),
        ({"url": "http://169.254.169.254/latest/meta-data"}, "169.254.169.254"),
        ({"text": "Hi."}, "too few"),
    ],
)
async def test_a_material_that_cannot_be_had_is_refused(
    lesson_client: LessonClient, body: Any, words: str
) -> None:
    """B-R17: addresses of this machine and its network are not fetched."""
    reply = await lesson_client.http.post(SOURCE, json=body)
    assert reply.status_code in {400, 403}, reply.text
    assert words in reply.json()["error"]


async def test_a_segment_is_changed_by_hand_and_the_others_not_by_a_byte(lesson_client: LessonClient) -> None:
    """B44, B-R9: what is said still names its facts, and what has no room is refused."""
    told = await lesson_client.narrated()
    before = segments(told)
    old = max(told["narration"]["segments"], key=lambda one: len(one["sentences"]))
    said = [one["text"] for one in old["sentences"]]
    new = " ".join([*said[:-1], "Leaves are small kitchens."])
    edit = {"segments": [{"id": old["id"], "narration": new, "visual_guidance": "A leaf, close up"}]}
    made = ok(await lesson_client.http.patch(NARRATION, json=edit, headers=lesson_client.named))
    assert (made["versionId"], made["changedSegments"]) == ("v2", [old["id"]])
    after = segments(made)
    assert {name for name in before if before[name] != after[name]} == {old["id"]}
    [changed] = [one for one in made["narration"]["segments"] if one["id"] == old["id"]]
    assert (changed["narration"], changed["visual_guidance"]) == (new, "A leaf, close up")
    assert changed["sentences"][0] == old["sentences"][0]
    assert changed["sentences"][-1]["factIds"] == []
    Narration.model_validate(made["narration"])
    long = {"segments": [{"id": "hook", "narration": "word " * 200}]}
    refused = await lesson_client.http.patch(NARRATION, json=long, headers=lesson_client.named)
    assert refused.status_code == 400
    assert "s allow" in refused.json()["error"]
    for bad, status in (({"id": "nobody"}, 404), ({"id": "hook", "narration": " "}, 400)):
        reply = await lesson_client.http.patch(
            NARRATION, json={"segments": [bad]}, headers=lesson_client.named
        )
        assert reply.status_code == status
    twice = {"segments": [{"id": "hook"}, {"id": "hook"}]}
    assert (
        await lesson_client.http.patch(NARRATION, json=twice, headers=lesson_client.named)
    ).status_code == 400
    assert (await lesson_client.sees())["narration"] == made["narration"]


async def test_a_segment_is_written_again_and_brought_back(lesson_client: LessonClient) -> None:
    """B44: the rest is the same to the byte; the turn is in the conversation."""
    told = await lesson_client.narrated()
    before = segments(told)
    again = ok(
        await lesson_client.post(NARRATION, action="regenerate", segments=["hook"], guidance="shorter")
    )
    assert again["success"], again["message"]
    after = segments(again)
    assert {name for name in before if before[name] != after[name]} <= {"hook"}
    assert again["created"][0]["stream"] == "narration"
    seen = await lesson_client.sees()
    assert "Write the hook again: shorter" in [one["content"] for one in seen["messages"]]
    edit = {"segments": [{"id": "conclusion", "narration": "And that is all."}]}
    ok(await lesson_client.http.patch(NARRATION, json=edit, headers=lesson_client.named))
    back = ok(await lesson_client.post(NARRATION, action="restore", version="v1", segments=["conclusion"]))
    assert back["changedSegments"] == ["conclusion"]
    assert segments(back)["conclusion"] == before["conclusion"]
    whole = ok(await lesson_client.post(NARRATION, action="restore", version="v1"))
    assert whole["narration"] == told["narration"]
    listed = ok(await lesson_client.http.get(f"{NARRATION}/versions", headers=lesson_client.named))[
        "versions"
    ]
    assert [one["id"] for one in listed] == [f"v{number}" for number in range(1, len(listed) + 1)]
    assert listed[-1]["parent"] == "v1"
    assert (await lesson_client.post(NARRATION, action="restore", version="v99")).status_code == 404
    assert (await lesson_client.post(NARRATION, action="restore")).status_code == 400


async def test_a_narration_is_a_file_in_four_forms(lesson_client: LessonClient) -> None:
    told = await lesson_client.narrated()
    begins = {"md": "# Photosynthesis", "srt": "1\n00:00:00,000", "vtt": "WEBVTT", "json": "{"}
    for form, words in begins.items():
        reply = await lesson_client.http.get(NARRATION, params={"format": form}, headers=lesson_client.named)
        assert reply.text.startswith(words)
        assert f"narration-v1.{form}" in reply.headers["Content-Disposition"]
    assert reply.json() == told["narration"]
    wrong = await lesson_client.http.get(NARRATION, params={"format": "exe"}, headers=lesson_client.named)
    assert wrong.status_code == 400
    nothing = LessonClient(lesson_client.http)
    await nothing.says("Hello!")
    assert (await lesson_client.http.get(NARRATION, headers=nothing.named)).status_code == 404


async def test_what_a_deleted_session_was_made_from_is_gone(lesson_client: LessonClient) -> None:
    reply = await lesson_client.http.post(
        f"{SOURCE}/files", params={"fileName": "leaves.txt"}, content=TEXT.encode()
    )
    lesson_client.session, url = reply.headers["X-Session-Id"], reply.json()["url"]
    assert (await lesson_client.http.get(url)).status_code == 200
    ok(await lesson_client.http.delete(SESSION, headers=lesson_client.named))
    assert (await lesson_client.http.get(url)).status_code == 404
    begun = await lesson_client.http.post(
        TOOLS, json={"messages": user("Hello!"), "provider": "offline"}, headers=lesson_client.named
    )
    assert begun.json()["sessionId"] != lesson_client.session
