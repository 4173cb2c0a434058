"""Images that a person chooses for a lesson, by every driver, and uploaded files (B40, B62)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from callsheet.graphs import fact_narration
from tests.doubles.image_double import image_results, scripted_google, search_settings
from tests.lessons.lesson_client import SESSION, LessonClient, ok
from tests.lessons.lesson_drivers import LessonDriver, Question, decision, edit_decision, inbox_answer
from tests.lessons.lesson_material import material
from tests.pages.test_uploads import GOOD

GRAPHS = {"fact_narration": fact_narration.graph}
TEXT = material("photosynthesis").text


@pytest.fixture(scope="module")
def google() -> Iterator[tuple[str, list[Any]]]:
    """An image search at the wire: its URL and its queries."""
    with scripted_google(200, image_results) as double:
        yield double


@pytest.fixture
def queries(google: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The queries in this test of the image search, which the environment points to."""
    for name, value in search_settings(google[0]).items():
        monkeypatch.setenv(name, value)
    google[1].clear()
    return google[1]


def image_ids(question: Question, *numbers: int) -> list[str]:
    return [question["images"][number - 1]["id"] for number in numbers]


async def image_question(lesson_driver: LessonDriver, **graph_input: Any) -> Question:
    """Return the question which images the lesson shows."""
    await lesson_driver.question_after(TEXT, images=True, **graph_input)
    question = await lesson_driver.answer([1, 2])
    assert question, lesson_driver.last_message
    return question


CHOICES: tuple[tuple[str, Callable[[Question], Any], tuple[int, ...]], ...] = (
    ("ids", lambda q: image_ids(q, 1, 3), (1, 3)),
    ("indices", lambda _: [2, 4], (2, 4)),
    ("objects", lambda q: {"images": q["images"][:2]}, (1, 2)),
    ("numbers", lambda _: "1 and 3", (1, 3)),
    ("all", lambda _: "all", (1, 2, 3, 4, 5)),
    ("approve", lambda _: decision("approve"), (1, 2, 3, 4, 5)),
    ("edit", lambda q: edit_decision("select_images", images=q["images"][4:]), (5,)),
    ("inbox accept", lambda _: inbox_answer("accept"), (1, 2, 3, 4, 5)),
    ("inbox response", lambda _: inbox_answer("response", "1 and 2"), (1, 2)),
    ("none", lambda _: "none", ()),
    ("reject", lambda _: decision("reject"), ()),
)


@pytest.mark.usefixtures("queries")
@pytest.mark.parametrize(
    ("answer", "numbers"), [case[1:] for case in CHOICES], ids=[case[0] for case in CHOICES]
)
async def test_chosen_images_become_assets_with_their_source(
    lesson_driver: LessonDriver, answer: Callable[[Question], Any], numbers: tuple[int, ...]
) -> None:
    """B40, B62: the narration is written before, and no model is called in between."""
    question = await image_question(lesson_driver)
    assert (await lesson_driver.narration()).facts == set(await lesson_driver.confirmed_ids())
    assert await lesson_driver.answer(answer(question)) is None, lesson_driver.last_message
    chosen = [question["images"][number - 1] for number in numbers]
    assets = await lesson_driver.assets()
    assert [asset["url"] for asset in assets] == [image["url"] for image in chosen]
    assert [asset["metadata"]["title"] for asset in assets] == [image["title"] for image in chosen]
    attributes = {
        (asset["assetType"], asset["metadata"]["source"], asset["metadata"]["credit"]) for asset in assets
    }
    assert attributes == ({("image", "https://e.org/leaves", "e.org")} if numbers else set())
    assert await lesson_driver.version_count("narration") == 1


async def test_the_image_question_has_actions_schema_and_examples_like_the_others(
    lesson_driver: LessonDriver, queries: list[Any]
) -> None:
    """B51, B62: at most six images; those without a web address are left out."""
    question = await image_question(lesson_driver)
    [action] = question["action_requests"]
    [review] = question["review_configs"]
    assert (action["name"], review["action_name"], question["type"]) == ("select_images",) * 3
    assert [image["id"] for image in action["args"]["images"]] == image_ids(question, 1, 2, 3, 4, 5)
    assert [image["number"] for image in question["images"]] == [1, 2, 3, 4, 5]
    assert all(image["url"].startswith("https://e.org/") for image in question["images"])
    assert question["effect"] in action["description"]
    assert len(question["examples"]) == 2
    assert question["response_schema"]["anyOf"]
    assert [query["q"] for query in queries] == [["Photosynthesis"]]
    assert "narration is ready" in lesson_driver.last_message
    assert "I found 5 images" in lesson_driver.last_message


REFUSED: tuple[tuple[Any, str], ...] = (
    ("", "empty"),
    ([9], "no image 9"),
    ("9", "no image 9"),
    (["image-nope"], "image-nope"),
    ({"images": [{"id": "image-nope"}]}, "image-nope"),
    ({"images": 3.5}, "3.5"),
    ({"answer": 5}, "answer"),
    (decision("shrug"), "shrug"),
    (edit_decision("select_facts", facts=[1]), "select_facts"),
)


@pytest.mark.usefixtures("queries")
async def test_an_answer_that_names_no_known_image_is_refused_and_the_question_stays(
    lesson_driver: LessonDriver,
) -> None:
    """B62."""
    question = await image_question(lesson_driver)
    for answer, words in REFUSED:
        next_question = await lesson_driver.answer(answer)
        assert next_question, answer
        assert words in next_question["problem"], answer
        assert next_question["images"] == question["images"]
    assert not await lesson_driver.assets()
    assert await lesson_driver.answer("2") is None
    assert [asset["url"] for asset in await lesson_driver.assets()] == [question["images"][1]["url"]]


async def test_a_rejection_searches_again_and_a_chat_message_is_answered(
    lesson_driver: LessonDriver, queries: list[Any]
) -> None:
    """B62: where a search has no results, the earlier images stay in the question."""
    question = await image_question(lesson_driver)
    after_chat = await lesson_driver.answer("What can you do?")
    assert after_chat
    assert after_chat["images"] == question["images"]
    after_rejection = await lesson_driver.answer(decision("reject", message="autumn woods"))
    assert after_rejection
    assert after_rejection["images"][0]["url"] == "https://e.org/autumn-woods-leaf.png"
    after_empty_search = await lesson_driver.answer(decision("reject", message="nothing at all"))
    assert after_empty_search
    assert "no images were found" in lesson_driver.last_message
    assert after_empty_search["images"] == after_rejection["images"]
    assert [query["q"][0] for query in queries] == ["Photosynthesis", "autumn woods", "nothing at all"]
    assert await lesson_driver.answer("1") is None
    assert len(await lesson_driver.assets()) == 1


@pytest.mark.usefixtures("queries")
async def test_the_image_question_comes_after_the_review(lesson_driver: LessonDriver) -> None:
    """B-R16, B62: not again for a rewritten narration, but for newly chosen facts."""
    review = await image_question(lesson_driver, review=True)
    assert review["type"] == "review_narration"
    question = await lesson_driver.answer("yes")
    assert question
    assert question["type"] == "select_images"
    assert await lesson_driver.stored_status() == "narration_verified"
    assert await lesson_driver.answer("1") is None
    second_review = await lesson_driver.send("make the hook shorter")
    assert second_review
    assert second_review["type"] == "review_narration"
    assert await lesson_driver.answer("yes") is None
    assert (await lesson_driver.question_after(TEXT))["type"] == "select_facts"
    assert (await lesson_driver.answer([2, 3]) or {})["type"] == "review_narration"
    second_question = await lesson_driver.answer("yes")
    assert second_question
    assert second_question["type"] == "select_images"
    assert await lesson_driver.answer([1]) is None
    assert "there already" in lesson_driver.last_message
    assert len(await lesson_driver.assets()) == 1


async def test_a_lesson_without_an_image_search_reports_that_and_is_narrated(
    lesson_driver: LessonDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B62."""
    monkeypatch.delenv("GOOGLE_SEARCH_KEY", raising=False)
    await lesson_driver.question_after(TEXT, images=True)
    assert await lesson_driver.answer("all") is None
    assert "no image search is configured" in lesson_driver.last_message.casefold()
    assert (await lesson_driver.narration()).segments


async def test_a_failed_image_search_is_reported_and_the_lesson_is_narrated(
    lesson_driver: LessonDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted_google(500, "{}") as (broken_url, _):
        for name, value in search_settings(broken_url).items():
            monkeypatch.setenv(name, value)
        await lesson_driver.question_after(TEXT, images=True)
        assert await lesson_driver.answer("all") is None
    assert "gave no answer" in lesson_driver.last_message
    assert (await lesson_driver.narration()).segments


async def test_no_image_search_runs_unless_the_request_wants_images(
    lesson_driver: LessonDriver, queries: list[Any]
) -> None:
    await lesson_driver.question_after(TEXT)
    assert await lesson_driver.answer("all") is None
    assert not queries


@pytest.mark.usefixtures("queries")
async def test_a_session_shows_the_question_it_waits_for(lesson_client: LessonClient) -> None:
    """B45-B49: in the session and in the list; images are chosen in the review step."""
    await lesson_client.send(TEXT, images=True, review=True)
    assert await step_and_question(lesson_client) == ("selection", "select_facts")
    await lesson_client.choose_facts(1, 2)
    assert await step_and_question(lesson_client) == ("review", "review_narration")
    await lesson_client.send("yes")
    assert await step_and_question(lesson_client) == ("review", "select_images")
    reply = await lesson_client.send("1")
    assert (reply["workflowStep"], reply["waitsFor"]) == ("review", None)
    assert await step_and_question(lesson_client) == ("review", None)
    assert [version["stream"] for version in reply["created"]] == ["assets"]
    [asset] = (await lesson_client.get_session())["assets"]
    assert asset["url"] == "https://e.org/Photosynthesis-leaf.png"


async def step_and_question(lesson_client: LessonClient) -> tuple[str, str | None]:
    """Return a session's step and pending question, which the list of sessions must show as well."""
    session = await lesson_client.get_session()
    sessions = ok(await lesson_client.http.get("/api/agent-create/sessions"))["sessions"]
    [entry] = [entry for entry in sessions if entry["id"] == lesson_client.session_id]
    shown = (session["workflowStep"], session["waitsFor"])
    assert (entry["workflowStep"], entry["waitsFor"]) == shown
    return shown


@pytest.mark.parametrize("name", ["png", "jpg", "gif", "webp", "mp4"])
async def test_an_uploaded_file_is_an_asset_and_is_deleted_with_it(
    lesson_client: LessonClient, name: str
) -> None:
    """B40: its type is read from its bytes, and browsers are told to save it."""
    await lesson_client.send("Hello!")
    asset = ok(await upload(lesson_client, f"leaf.{name}", GOOD[name], credit="Our class"), 201)
    assert (asset["assetType"], asset["metadata"]["credit"]) == (
        "video" if name == "mp4" else "image",
        "Our class",
    )
    assert (await lesson_client.get_session())["assets"] == [asset]
    download = await lesson_client.http.get(asset["url"])
    assert download.content == GOOD[name]
    assert download.headers["Content-Type"] == asset["metadata"]["mediaType"]
    assert download.headers["X-Content-Type-Options"] == "nosniff"
    assert download.headers["Content-Disposition"].startswith("attachment")
    other_session = await LessonClient(lesson_client.http).send("Hello!")
    refusal = await lesson_client.http.get(
        asset["url"].partition("?")[0], headers={"X-Session-Id": other_session["sessionId"]}
    )
    assert refusal.status_code == 404
    ok(await lesson_client.request("DELETE", f"{SESSION}/assets/{asset['id']}"))
    assert (await lesson_client.http.get(asset["url"])).status_code == 404
    assert (await lesson_client.get_session())["assets"] == []


async def upload(lesson_client: LessonClient, name: str, content: bytes, **fields: str) -> Any:
    params = {"fileName": name, **fields}
    return await lesson_client.request("POST", f"{SESSION}/assets/files", params=params, content=content)


@pytest.mark.parametrize(
    ("name", "content", "status", "words"),
    [
        ("leaf.png", GOOD["jpg"], 422, "contains jpg, not png"),
        ("leaf.png", GOOD["png"] + b"<script>alert(1)</script>", 422, "unsupported type"),
        ("leaf.gif", b"GIF89a/*<script>alert(1)</script>", 422, "unsupported type"),
        ("leaf.svg", b"<svg/>", 422, "no image and no film"),
        ("leaf.pdf", GOOD["pdf"], 422, "no image and no film"),
        ("../leaf.png", GOOD["png"], 422, "not a plain file name"),
        ("leaf.png", b"", 422, "is empty"),
        ("leaf.png", b"\x89PNG\r\n\x1a\n" + bytes(5_000_001), 413, "5000000"),
    ],
)
async def test_an_uploaded_file_that_is_no_image_is_refused(
    lesson_client: LessonClient, name: str, content: bytes, status: int, words: str
) -> None:
    """B40: another type, a polyglot file, a path as a name, and a file that is too large."""
    await lesson_client.send("Hello!")
    reply = await upload(lesson_client, name, content)
    assert reply.status_code == status, reply.text
    assert words in reply.json()["error"]
    assert (await lesson_client.get_session())["assets"] == []
