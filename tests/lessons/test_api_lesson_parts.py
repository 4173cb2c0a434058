"""Materials and narrations of a lesson over REST: upload, edit, regenerate, restore, export."""

import json
import textwrap
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.graphs import fact_narration
from callsheet.state.entered import UPLOADED
from callsheet.state.lessons.narration import Narration
from tests.doubles.pdf_writer import (
    Piece,
    drawn_pdf,
    encrypted_pdf,
    line,
    lines,
    pdf,
    pdf_from_streams,
    zip_archive,
)
from tests.doubles.served import parse_events
from tests.lessons.lesson_client import NARRATION, SESSION, SOURCE, TOOLS, LessonClient, ok, user
from tests.lessons.lesson_material import material

TEXT = material("photosynthesis").text
FILES = Path(__file__).parent / "files"
GRAPHS = {"fact_narration": fact_narration.graph}


def segments_as_json(reply: dict[str, Any]) -> dict[str, str]:
    """Return each segment of a narration as JSON, by id."""
    return {segment["id"]: json.dumps(segment) for segment in reply["narration"]["segments"]}


async def test_facts_come_from_a_text_that_was_added_as_material(lesson_client: LessonClient) -> None:
    """B5, B38, B42: the material is stored apart, and no message holds it."""
    reply = await lesson_client.http.post(SOURCE, json={"text": TEXT, "name": "leaves.txt"})
    source = ok(reply, 201)
    lesson_client.session_id = reply.headers["X-Session-Id"]
    assert (source["sessionId"], source["kind"], source["name"]) == (
        lesson_client.session_id,
        "text",
        "leaves.txt",
    )
    facts_reply = await lesson_client.send("Find the facts in the text")
    assert facts_reply["topic"] == "Photosynthesis"
    session = await lesson_client.get_session()
    assert "chlorophyll" in session["session"]["sourceMaterials"]["text"]
    assert "chlorophyll" not in " ".join(message["content"] for message in session["messages"])


@pytest.mark.slow
async def test_an_uploaded_pdf_gives_the_facts_of_its_text_and_can_be_downloaded(
    lesson_client: LessonClient,
) -> None:
    """B4, B5, B38: each page is reported as it is read."""
    data = pdf(TEXT, rows=12)
    headers = {"Accept": "text/event-stream"}
    reply = await lesson_client.http.post(
        f"{SOURCE}/files", params={"fileName": "leaves.pdf"}, content=data, headers=headers
    )
    lesson_client.session_id = reply.headers["X-Session-Id"]
    events = parse_events(reply.text)
    pages = [one["done"] for name, one in events if name == "step"]
    source = events[-1][1]
    assert events[-1][0] == "result", events
    assert pages == list(range(1, source["pages"] + 1))
    assert source["pages"] > 1
    facts_reply = await lesson_client.send("Find the facts in the PDF I uploaded")
    pasted = await LessonClient(lesson_client.http).send(TEXT)
    assert [fact["id"] for fact in facts_reply["facts"]] == [fact["id"] for fact in pasted["facts"]]
    url = (await lesson_client.get_session())["session"]["sourceMaterials"]["pdfUrl"]
    download = await lesson_client.http.get(url)
    assert download.content == data
    assert download.headers["Content-Type"] == "application/pdf"
    assert "attachment" in download.headers["Content-Disposition"]
    other_session = await LessonClient(lesson_client.http).send("Hello!")
    refusal = await lesson_client.http.get(
        url.partition("?")[0], headers={"X-Session-Id": other_session["sessionId"]}
    )
    assert refusal.status_code == 404


@pytest.mark.parametrize(
    ("name", "content", "status", "words"),
    [
        ("notes.docx", b"PK", 422, "no PDF and no text"),
        ("../notes.txt", b"x", 422, "not a plain file name"),
        ("notes.pdf", b"Leaves are green, all of them.", 422, "contains txt, not pdf"),
        ("notes.txt", b"", 422, "is empty"),
        ("notes.txt", b"\xff\xfe\x00", 422, ""),
        ("notes.txt", b"Hi.", 422, "too few"),
        pytest.param("scan.pdf", pdf_from_streams([b"q Q"]), 422, "was scanned", marks=pytest.mark.slow),
    ],
)
async def test_an_uploaded_file_that_is_unusable_as_material_is_refused(
    lesson_client: LessonClient, name: str, content: bytes, status: int, words: str
) -> None:
    reply = await lesson_client.http.post(f"{SOURCE}/files", params={"fileName": name}, content=content)
    assert reply.status_code == status, reply.text
    assert words in reply.json()["error"]


async def upload(lesson_client: LessonClient, name: str, data: bytes) -> httpx.Response:
    reply = await lesson_client.http.post(f"{SOURCE}/files", params={"fileName": name}, content=data)
    lesson_client.session_id = reply.headers.get("X-Session-Id")
    return reply


@pytest.mark.slow
async def test_an_encrypted_pdf_is_material_unless_it_needs_a_password(lesson_client: LessonClient) -> None:
    """B4: AES without a password of the reader's is no obstacle."""
    ok(await upload(lesson_client, "flood.pdf", (FILES / "owner_AES-128.pdf").read_bytes()), 201)
    text = (await lesson_client.get_session())["session"]["sourceMaterials"]["text"]
    assert text.startswith("The first flood of the river Selva came in 1788.")
    refusal = await upload(lesson_client, "locked.pdf", encrypted_pdf(TEXT, "AES-256", "secret"))
    assert refusal.status_code == 422
    assert "locked.pdf is encrypted" in refusal.json()["error"]


async def test_a_pdf_that_is_also_an_archive_is_refused(lesson_client: LessonClient) -> None:
    reply = await upload(lesson_client, "leaves.pdf", pdf(TEXT) + zip_archive())
    assert reply.status_code == 422
    assert "is an archive as well" in reply.json()["error"]


@pytest.mark.slow
async def test_text_that_nobody_sees_in_a_pdf_is_no_fact(lesson_client: LessonClient) -> None:
    white = line(
        72, 60, Piece("The Eiffel Tower is 999 metres high and was built in 1750.", 11, before="1 g")
    )
    data = drawn_pdf([white, *lines(60, 720, textwrap.wrap(" ".join(TEXT.split()), 80)[:40])])
    ok(await upload(lesson_client, "leaves.pdf", data), 201)
    reply = await lesson_client.send("Find the facts in the PDF I uploaded")
    assert reply["facts"]
    assert "999" not in json.dumps(reply)


@pytest.mark.slow
async def test_a_doubtful_order_of_a_pdfs_text_is_shown_with_its_facts(lesson_client: LessonClient) -> None:
    questions = (
        "Plants make their own sugar.",
        "Leaves take in carbon dioxide.",
        "Roots take up plain water.",
    )
    answers = (
        "It happens in 12 hours of light.",
        "It enters through 300 stomata.",
        "It rises 40 metres in trees.",
    )
    pairs = zip(lines(60, 700, questions), lines(320, 700, answers), strict=True)
    source = ok(
        await upload(lesson_client, "quiz.pdf", drawn_pdf([part for pair in pairs for part in pair])), 201
    )
    warning = "the order of the text of quiz.pdf is not certain; compare the facts with the file"
    assert source["warnings"] == [warning]
    reply = await lesson_client.send("Find the facts in the PDF I uploaded")
    assert reply["facts"]
    assert warning in reply["warnings"]


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
async def test_a_material_without_text_or_with_a_private_address_is_refused(
    lesson_client: LessonClient, body: Any, words: str
) -> None:
    """B-R17: addresses of this machine and its network are not fetched."""
    reply = await lesson_client.http.post(SOURCE, json=body)
    assert reply.status_code in {400, 403, 422}, reply.text
    assert words in reply.json()["error"]


async def test_an_edit_by_hand_changes_one_segment_and_no_byte_of_the_others(
    lesson_client: LessonClient,
) -> None:
    """B44, B-R9: unchanged sentences keep their facts, and text that is too long for its time is refused."""
    narrated = await lesson_client.create_narration()
    before = segments_as_json(narrated)
    old_segment = max(narrated["narration"]["segments"], key=lambda one: len(one["sentences"]))
    texts = [sentence["text"] for sentence in old_segment["sentences"]]
    new_text = " ".join([*texts[:-1], "Leaves are small kitchens."])
    edit = {
        "segments": [{"id": old_segment["id"], "narration": new_text, "visual_guidance": "A leaf, close up"}]
    }
    edited = ok(await lesson_client.request("PATCH", NARRATION, json=edit))
    assert (edited["versionId"], edited["changedSegments"]) == ("v2", [old_segment["id"]])
    after = segments_as_json(edited)
    assert {name for name in before if before[name] != after[name]} == {old_segment["id"]}
    [changed] = [segment for segment in edited["narration"]["segments"] if segment["id"] == old_segment["id"]]
    assert (changed["narration"], changed["visual_guidance"]) == (new_text, "A leaf, close up")
    assert changed["sentences"][0] == old_segment["sentences"][0]
    assert changed["sentences"][-1]["factIds"] == []
    Narration.model_validate(edited["narration"])
    too_long = {"segments": [{"id": "hook", "narration": "word " * 200}]}
    refused = await lesson_client.request("PATCH", NARRATION, json=too_long)
    assert refused.status_code == 422
    assert "s allow" in refused.json()["error"]
    for bad_segment, status in (({"id": "nobody"}, 404), ({"id": "hook", "narration": " "}, 422)):
        reply = await lesson_client.request("PATCH", NARRATION, json={"segments": [bad_segment]})
        assert reply.status_code == status
    duplicate = {"segments": [{"id": "hook"}, {"id": "hook"}]}
    assert (await lesson_client.request("PATCH", NARRATION, json=duplicate)).status_code == 422
    assert (await lesson_client.get_session())["narration"] == edited["narration"]


async def test_a_segment_is_regenerated_and_restored_to_an_earlier_version(
    lesson_client: LessonClient,
) -> None:
    """B44: the other segments do not change by a byte, and the request is in the conversation."""
    narrated = await lesson_client.create_narration()
    before = segments_as_json(narrated)
    regenerated = ok(
        await lesson_client.post(NARRATION, action="regenerate", segments=["hook"], guidance="shorter")
    )
    assert regenerated["success"], regenerated["message"]
    after = segments_as_json(regenerated)
    assert {name for name in before if before[name] != after[name]} <= {"hook"}
    assert regenerated["created"][0]["stream"] == "narration"
    session = await lesson_client.get_session()
    assert "Write the hook again: shorter" in [message["content"] for message in session["messages"]]
    edit = {"segments": [{"id": "conclusion", "narration": "And that is all."}]}
    ok(await lesson_client.request("PATCH", NARRATION, json=edit))
    restored = ok(
        await lesson_client.post(NARRATION, action="restore", version="v1", segments=["conclusion"])
    )
    assert restored["changedSegments"] == ["conclusion"]
    assert segments_as_json(restored)["conclusion"] == before["conclusion"]
    all_restored = ok(await lesson_client.post(NARRATION, action="restore", version="v1"))
    assert all_restored["narration"] == narrated["narration"]
    versions = ok(await lesson_client.request("GET", f"{NARRATION}/versions"))["versions"]
    assert [version["id"] for version in versions] == [f"v{number}" for number in range(1, len(versions) + 1)]
    assert versions[-1]["parent"] == "v1"
    assert (await lesson_client.post(NARRATION, action="restore", version="v99")).status_code == 404
    assert (await lesson_client.post(NARRATION, action="restore")).status_code == 422


async def test_a_narration_is_exported_in_four_formats(lesson_client: LessonClient) -> None:
    narrated = await lesson_client.create_narration()
    beginnings = {"md": "# Photosynthesis", "srt": "1\n00:00:00,000", "vtt": "WEBVTT", "json": "{"}
    for format_name, words in beginnings.items():
        reply = await lesson_client.request("GET", NARRATION, params={"format": format_name})
        assert reply.text.startswith(words)
        timing = "%20written" if format_name in {"srt", "vtt"} else ""
        name = f"Photosynthesis%2C%20narration%20v1{timing}.{format_name}"
        assert name in reply.headers["Content-Disposition"]
    assert reply.json() == narrated["narration"]
    refusal = await lesson_client.request("GET", NARRATION, params={"format": "exe"})
    assert refusal.status_code == 422
    other_client = LessonClient(lesson_client.http)
    await other_client.send("Hello!")
    assert (await lesson_client.http.get(NARRATION, headers=other_client.session_header)).status_code == 404


async def test_the_material_of_a_deleted_session_is_deleted_too(lesson_client: LessonClient) -> None:
    reply = await lesson_client.http.post(
        f"{SOURCE}/files", params={"fileName": "leaves.txt"}, content=TEXT.encode()
    )
    lesson_client.session_id, url = reply.headers["X-Session-Id"], reply.json()["url"]
    assert (await lesson_client.http.get(url)).status_code == 200
    ok(await lesson_client.request("DELETE", SESSION))
    assert (await lesson_client.http.get(url)).status_code == 404
    new_session = await lesson_client.request(
        "POST", TOOLS, json={"messages": user("Hello!"), "provider": "offline"}
    )
    assert new_session.json()["sessionId"] != lesson_client.session_id


async def test_a_narration_is_exported_as_slides_that_nothing_can_run_in(
    lesson_client: LessonClient,
) -> None:
    narrated = await lesson_client.create_narration()
    reply = await lesson_client.request("GET", f"{NARRATION}?format=slides")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert "sandbox" in reply.headers["content-security-policy"]
    assert reply.headers["content-disposition"].endswith(".html")
    assert f"<h1>{narrated['narration']['topic']}</h1>" in reply.text


async def test_an_answer_names_an_uploaded_file_until_its_facts_are_searched(
    lesson_client: LessonClient,
) -> None:
    """The words that use it do, and it is not named any more."""
    await upload(lesson_client, "leaves.txt", TEXT.encode())
    note = "leaves.txt is not read yet: say “find the facts in the file”."
    noted = await lesson_client.send("My student is 9 and loves football")
    assert noted["message"] == f"Noted: age 9 and likes football.\n\n{note}"
    assert (await lesson_client.send("make it funny"))["message"].endswith(note)
    proposed = await lesson_client.send("Find the facts in the file")
    assert len(proposed["facts"]) >= 5
    assert note not in (await lesson_client.choose_facts(1, 2))["message"]
    assert note not in (await lesson_client.send("She loves chess"))["message"]
    await upload(lesson_client, "empty.txt", b"There is no fact in here: 1 2 3.")
    assert "is not read yet" not in (await lesson_client.send("Find the facts in the file"))["message"]


async def test_a_message_about_an_uploaded_file_carries_its_name_and_the_persons_words(
    lesson_client: LessonClient,
) -> None:
    """The terminal sends a sentence for the model behind them, which the page does not show."""
    await upload(lesson_client, "leaves.txt", TEXT.encode())
    await lesson_client.send(f"My student is 10.\n\n{UPLOADED}")
    await lesson_client.send("make it funny")
    await lesson_client.send(f"{UPLOADED} But leave out the roots.")
    path = f"/threads/{lesson_client.session_id}/state"
    messages = (await lesson_client.http.get(path)).json()["values"]["messages"]
    shown = [one["additional_kwargs"] for one in messages if one["type"] == "human"]
    assert shown == [{"entered": {"request": "My student is 10.", "file": "leaves.txt"}}, {}, {}]
