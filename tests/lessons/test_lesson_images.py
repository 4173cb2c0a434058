"""Images that a person chooses for a lesson, by every door; and the files they bring (B40, B62)."""

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
def found() -> Iterator[tuple[str, list[Any]]]:
    """A search, and what it was asked."""
    with scripted_google(200, image_results) as double:
        yield double


@pytest.fixture
def asks(found: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the search that is configured here was asked in this test."""
    for name, value in search_settings(found[0]).items():
        monkeypatch.setenv(name, value)
    found[1].clear()
    return found[1]


def pictures(asked: Question, *numbers: int) -> list[str]:
    return [asked["images"][number - 1]["id"] for number in numbers]


async def offered(lesson_driver: LessonDriver, **chosen: Any) -> Question:
    """The question which images are shown."""
    await lesson_driver.question_after(TEXT, images=True, **chosen)
    asked = await lesson_driver.answer([1, 2])
    assert asked, lesson_driver.last_message
    return asked


CHOICES: tuple[tuple[str, Callable[[Question], Any], tuple[int, ...]], ...] = (
    ("ids", lambda q: pictures(q, 1, 3), (1, 3)),
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


@pytest.mark.usefixtures("asks")
@pytest.mark.parametrize(("answer", "numbers"), [one[1:] for one in CHOICES], ids=[one[0] for one in CHOICES])
async def test_images_that_are_chosen_become_assets_with_their_source(
    lesson_driver: LessonDriver, answer: Callable[[Question], Any], numbers: tuple[int, ...]
) -> None:
    """B40, B62: the narration is there before, and no model is asked in between."""
    asked = await offered(lesson_driver)
    assert (await lesson_driver.narration()).facts == set(await lesson_driver.confirmed_ids())
    assert await lesson_driver.answer(answer(asked)) is None, lesson_driver.last_message
    wanted = [asked["images"][number - 1] for number in numbers]
    kept = await lesson_driver.assets()
    assert [one["url"] for one in kept] == [one["url"] for one in wanted]
    assert [one["metadata"]["title"] for one in kept] == [one["title"] for one in wanted]
    about = {(one["assetType"], one["metadata"]["source"], one["metadata"]["credit"]) for one in kept}
    assert about == ({("image", "https://e.org/leaves", "e.org")} if numbers else set())
    assert await lesson_driver.version_count("narration") == 1


async def test_the_question_has_the_shape_of_the_others(lesson_driver: LessonDriver, asks: list[Any]) -> None:
    """B51, B62: at most six, with what stock interfaces need; addresses that are none are left out."""
    asked = await offered(lesson_driver)
    [action] = asked["action_requests"]
    [review] = asked["review_configs"]
    assert (action["name"], review["action_name"], asked["type"]) == ("select_images",) * 3
    assert [image["id"] for image in action["args"]["images"]] == pictures(asked, 1, 2, 3, 4, 5)
    assert [image["number"] for image in asked["images"]] == [1, 2, 3, 4, 5]
    assert all(image["url"].startswith("https://e.org/") for image in asked["images"])
    assert asked["effect"] in action["description"]
    assert len(asked["examples"]) == 2
    assert asked["response_schema"]["anyOf"]
    assert [one["q"] for one in asks] == [["Photosynthesis"]]
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


@pytest.mark.usefixtures("asks")
async def test_what_chooses_no_image_is_refused_and_the_question_waits(lesson_driver: LessonDriver) -> None:
    """B62."""
    asked = await offered(lesson_driver)
    for answer, words in REFUSED:
        again = await lesson_driver.answer(answer)
        assert again, answer
        assert words in again["problem"], answer
        assert again["images"] == asked["images"]
    assert not await lesson_driver.assets()
    assert await lesson_driver.answer("2") is None
    assert [one["url"] for one in await lesson_driver.assets()] == [asked["images"][1]["url"]]


async def test_other_images_are_looked_for_and_talk_is_answered(
    lesson_driver: LessonDriver, asks: list[Any]
) -> None:
    """B62: where there are none, those found before wait on."""
    asked = await offered(lesson_driver)
    talk = await lesson_driver.answer("What can you do?")
    assert talk
    assert talk["images"] == asked["images"]
    again = await lesson_driver.answer(decision("reject", message="autumn woods"))
    assert again
    assert again["images"][0]["url"] == "https://e.org/autumn-woods-leaf.png"
    same = await lesson_driver.answer(decision("reject", message="nothing at all"))
    assert same
    assert "no images were found" in lesson_driver.last_message
    assert same["images"] == again["images"]
    assert [one["q"][0] for one in asks] == ["Photosynthesis", "autumn woods", "nothing at all"]
    assert await lesson_driver.answer("1") is None
    assert len(await lesson_driver.assets()) == 1


@pytest.mark.usefixtures("asks")
async def test_images_are_asked_about_after_the_review(lesson_driver: LessonDriver) -> None:
    """B-R16, B62: and not again for a rewritten narration, but for newly chosen facts."""
    review = await offered(lesson_driver, review=True)
    assert review["type"] == "review_narration"
    asked = await lesson_driver.answer("yes")
    assert asked
    assert asked["type"] == "select_images"
    assert await lesson_driver.stored_status() == "narration_verified"
    assert await lesson_driver.answer("1") is None
    again = await lesson_driver.send("make the hook shorter")
    assert again
    assert again["type"] == "review_narration"
    assert await lesson_driver.answer("yes") is None
    assert (await lesson_driver.question_after(TEXT))["type"] == "select_facts"
    assert (await lesson_driver.answer([2, 3]) or {})["type"] == "review_narration"
    last = await lesson_driver.answer("yes")
    assert last
    assert last["type"] == "select_images"
    assert await lesson_driver.answer([1]) is None
    assert "there already" in lesson_driver.last_message
    assert len(await lesson_driver.assets()) == 1


async def test_without_a_search_it_says_so_and_goes_on(
    lesson_driver: LessonDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B62."""
    monkeypatch.delenv("GOOGLE_SEARCH_KEY", raising=False)
    await lesson_driver.question_after(TEXT, images=True)
    assert await lesson_driver.answer("all") is None
    assert "no image search is configured" in lesson_driver.last_message.casefold()
    assert (await lesson_driver.narration()).segments


async def test_a_search_that_fails_takes_nothing_along(
    lesson_driver: LessonDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted_google(500, "{}") as (broken, _):
        for name, value in search_settings(broken).items():
            monkeypatch.setenv(name, value)
        await lesson_driver.question_after(TEXT, images=True)
        assert await lesson_driver.answer("all") is None
    assert "gave no answer" in lesson_driver.last_message
    assert (await lesson_driver.narration()).segments


async def test_nothing_is_looked_for_unless_it_is_wanted(
    lesson_driver: LessonDriver, asks: list[Any]
) -> None:
    await lesson_driver.question_after(TEXT)
    assert await lesson_driver.answer("all") is None
    assert not asks


@pytest.mark.usefixtures("asks")
async def test_the_session_says_what_it_waits_for(lesson_client: LessonClient) -> None:
    """B45-B49: the list too; images are chosen in the review."""
    await lesson_client.send(TEXT, images=True, review=True)
    assert await waits(lesson_client) == ("selection", "select_facts")
    await lesson_client.choose_facts(1, 2)
    assert await waits(lesson_client) == ("review", "review_narration")
    await lesson_client.send("yes")
    assert await waits(lesson_client) == ("review", "select_images")
    told = await lesson_client.send("1")
    assert (told["workflowStep"], told["waitsFor"]) == ("review", None)
    assert await waits(lesson_client) == ("review", None)
    assert [asset["url"] for asset in (await lesson_client.get_session())["assets"]] == [told_asset(told)]


def told_asset(told: dict[str, Any]) -> str:
    [made] = told["created"]
    assert made["stream"] == "assets"
    return "https://e.org/Photosynthesis-leaf.png"


async def waits(lesson_client: LessonClient) -> tuple[str, str | None]:
    """What the session waits for, which its line in the list must say as well."""
    seen = await lesson_client.get_session()
    listed = ok(await lesson_client.http.get("/api/agent-create/sessions"))["sessions"]
    [line] = [one for one in listed if one["id"] == lesson_client.session_id]
    told = (seen["workflowStep"], seen["waitsFor"])
    assert (line["workflowStep"], line["waitsFor"]) == told
    return told


@pytest.mark.parametrize("name", ["png", "jpg", "gif", "webp", "mp4"])
async def test_a_file_is_kept_as_an_asset(lesson_client: LessonClient, name: str) -> None:
    """B40: its bytes say what it is; it is sent to be saved, and goes with its asset."""
    await lesson_client.send("Hello!")
    made = ok(await sent(lesson_client, f"leaf.{name}", GOOD[name], credit="Our class"), 201)
    assert (made["assetType"], made["metadata"]["credit"]) == (
        "video" if name == "mp4" else "image",
        "Our class",
    )
    assert (await lesson_client.get_session())["assets"] == [made]
    back = await lesson_client.http.get(made["url"])
    assert back.content == GOOD[name]
    assert back.headers["Content-Type"] == made["metadata"]["mediaType"]
    assert back.headers["X-Content-Type-Options"] == "nosniff"
    assert back.headers["Content-Disposition"].startswith("attachment")
    other = await LessonClient(lesson_client.http).send("Hello!")
    strange = await lesson_client.http.get(
        made["url"].partition("?")[0], headers={"X-Session-Id": other["sessionId"]}
    )
    assert strange.status_code == 404
    ok(await lesson_client.request("DELETE", f"{SESSION}/assets/{made['id']}"))
    assert (await lesson_client.http.get(made["url"])).status_code == 404
    assert (await lesson_client.get_session())["assets"] == []


async def sent(lesson_client: LessonClient, name: str, content: bytes, **told: str) -> Any:
    params = {"fileName": name, **told}
    return await lesson_client.request("POST", f"{SESSION}/assets/files", params=params, content=content)


@pytest.mark.parametrize(
    ("name", "content", "status", "words"),
    [
        ("leaf.png", GOOD["jpg"], 400, "contains jpg, not png"),
        ("leaf.png", GOOD["png"] + b"<script>alert(1)</script>", 400, "unsupported type"),
        ("leaf.gif", b"GIF89a/*<script>alert(1)</script>", 400, "unsupported type"),
        ("leaf.svg", b"<svg/>", 400, "no image and no film"),
        ("leaf.pdf", GOOD["pdf"], 400, "no image and no film"),
        ("../leaf.png", GOOD["png"], 400, "not a plain file name"),
        ("leaf.png", b"", 400, "is empty"),
        ("leaf.png", b"\x89PNG\r\n\x1a\n" + bytes(5_000_001), 413, "5000000"),
    ],
)
async def test_a_file_that_is_no_image_is_refused(
    lesson_client: LessonClient, name: str, content: bytes, status: int, words: str
) -> None:
    """B40: another kind, a polyglot, a path, and what is too large."""
    await lesson_client.send("Hello!")
    reply = await sent(lesson_client, name, content)
    assert reply.status_code == status, reply.text
    assert words in reply.json()["error"]
    assert (await lesson_client.get_session())["assets"] == []
