"""The three tools of a lesson, through the guard (B1-B23, B-R4, B-R11)."""

import json

import pytest
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from callsheet.state.lessons.narration import Narration
from callsheet.tools import REGISTRY
from callsheet.tools.lessons import lesson, sources
from callsheet.tools.registry import definitions, index
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.pdf_writer import pdf
from tests.guard.test_fetching import FakeNetwork, web_client
from tests.lessons.lesson_double import LessonDouble
from tests.lessons.lesson_material import material
from tests.lessons.test_sources import page


@pytest.fixture
def school(opened):
    return LessonDouble(opened)


@pytest.fixture
async def chosen(school):
    """A lesson about photosynthesis with three confirmed facts."""
    found = await school.use("extractFactsTool", content=material("photosynthesis").text)
    picked = [found["facts"][i] for i in (0, 2, 4)]
    await school.put("confirmed", {"facts": picked})
    return picked


def test_a_model_is_shown_four_tools_with_their_fields():
    """B1, B2, B4, B9, B57."""
    shown = {one["function"]["name"]: one["function"] for one in definitions(REGISTRY.of("lesson"))}
    assert set(shown) == {
        "saveStudentInfoTool",
        "extractFactsTool",
        "chooseFactsTool",
        "generateNarrationTool",
    }
    fields = {name: set(one["parameters"]["properties"]) for name, one in shown.items()}
    assert fields["saveStudentInfoTool"] == {"child_age", "child_interest", "learning_style"}
    assert {"content"} <= fields["extractFactsTool"]
    wanted = {"facts", "topic", "target_duration", "child_age", "child_interest"}
    assert wanted <= fields["generateNarrationTool"]
    assert "ALWAYS" in shown["extractFactsTool"]["description"]


async def test_a_student_is_noted_and_added_to(school):
    """B2, B3, B69, B-R11."""
    made = await school.use("saveStudentInfoTool", child_age="10", child_interest="soccer")
    assert (made["success"], made["child_age"], made["child_interest"]) == (True, "10", "soccer")
    assert made["message"] == "Noted: age 10 and likes soccer."
    made = await school.use("saveStudentInfoTool", child_interest="Minecraft")
    assert (made["child_age"], made["child_interest"]) == ("10", "Minecraft")
    assert await school.newest("student") == {"child_age": "10", "child_interest": "Minecraft"}


async def test_an_age_may_be_a_number_and_an_unclear_one_is_told_of(school):
    assert (await school.use("saveStudentInfoTool", child_age=7))["child_age"] == "7"
    made = await school.use("saveStudentInfoTool", child_age="quite small")
    assert "quite small" in made["warnings"][0]


async def test_nothing_about_a_student_is_refused(school):
    assert (await school.use("saveStudentInfoTool"))["type"] == "validation_error"


async def test_a_session_that_a_model_names_does_not_matter(school):
    """B23."""
    made = await school.use("saveStudentInfoTool", child_age="9", sessionId="someone-elses")
    assert made["success"]
    assert await school.newest("student") == {"child_age": "9", "child_interest": None}


async def test_pasted_text_becomes_facts_that_are_remembered(school):
    """B4, B6, B8, B18, B69."""
    made = await school.use("extractFactsTool", content=material("photosynthesis").text)
    assert made["success"]
    assert (made["topic"], made["status"]) == ("Photosynthesis", "facts_extracted")
    assert made["message"].startswith("I found 7 facts about Photosynthesis.")
    assert made["learningObjective"]
    assert (made["cost"], made["duration"] > 0) == (0, True)
    kept = await school.newest("facts")
    assert [fact["id"] for fact in kept["facts"]] == [fact["id"] for fact in made["facts"]]
    text = kept["source"]["text"]
    for fact in kept["facts"]:
        assert text[fact["source"]["start"] : fact["source"]["end"]] == fact["source"]["quote"]


async def test_an_upload_is_read_where_a_model_copies_a_part_of_it(school):
    """B5, B42."""
    source = sources.pasted_source(material("the_moon").text, "moon.txt")
    version = await school.put("source", source.data())
    made = await school.use("extractFactsTool", content=material("the_moon").text[:200])
    assert made["topic"] == "The Moon in figures"
    kept = await school.newest("facts")
    assert (kept["source"]["version"], kept["source"]["name"]) == (version, "moon.txt")
    assert "text" not in kept["source"]


async def test_a_text_goes_before_an_upload_that_was_not_read(school):
    """B5: "not the file, use this text instead"."""
    await school.put("source", sources.pasted_source(material("the_moon").text, "moon.txt").data())
    assert (await school.use("extractFactsTool", content=material("injection").text))["topic"] == "Rivers"


async def test_after_an_upload_was_read_a_new_text_is_read(school):
    await school.put("source", sources.pasted_source(material("the_moon").text).data())
    assert (await school.use("extractFactsTool"))["topic"] == "The Moon in figures"
    made = await school.use("extractFactsTool", content=material("injection").text)
    assert made["topic"] == "Rivers"
    assert (await school.use("extractFactsTool", content=""))["topic"] == "The Moon in figures"


async def test_other_facts_of_the_same_text_are_found_when_asked_for(school):
    text = material("struggle_for_existence").text
    first = await school.use("extractFactsTool", content=text)
    again = await school.use("extractFactsTool", content=text, guidance="the mistletoe, please")
    assert "mistletoe" in json.dumps(again["facts"])
    assert not {fact["id"] for fact in first["facts"]} & {fact["id"] for fact in again["facts"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "too few"),
        ("Home | About us | Log in | Contact", "contains no facts"),
        ("https://example.org/", "fetches no web pages"),
    ],
)
async def test_what_holds_no_lesson_is_refused_with_a_remedy(school, content, words):
    made = await school.use("extractFactsTool", content=content)
    assert made["type"] == "validation_error"
    assert words in made["error"]
    assert made["suggestion"]


async def test_confirmed_facts_are_narrated_and_no_others(school, chosen):
    """B10, B11, B16, B17, B22, B69, B-R4."""
    await school.use("saveStudentInfoTool", child_age="10", child_interest="soccer")
    invented = {"concept": "Aliens", "details": "Aliens eat leaves."}
    made = await school.use("generateNarrationTool", facts=[invented], topic="Aliens")
    assert made["success"]
    assert made["status"] == "script_generated"
    narration = Narration.model_validate(made["narration"])
    assert narration.facts == {fact["id"] for fact in chosen}
    assert "Aliens" not in narration.model_dump_json()
    assert (narration.total_duration, narration.reading_level, narration.topic) == (
        60,
        "4.5",
        "Photosynthesis",
    )
    assert "soccer" in narration.model_dump_json()
    assert await school.newest("narration") == made["narration"]


async def test_a_narration_needs_no_student(school, chosen):
    """B55."""
    made = await school.use("generateNarrationTool")
    assert made["narration"]["reading_level"] == "6.5"


async def test_the_student_of_the_session_goes_before_what_a_model_says(school, chosen):
    """B10."""
    await school.use("saveStudentInfoTool", child_age="6")
    made = await school.use("generateNarrationTool", child_age="15", child_interest="chess")
    assert made["narration"]["reading_level"] == "3.5"
    assert "chess" in json.dumps(made["narration"])


@pytest.mark.parametrize(("asked", "total"), [(60, 60), (3, 15), (90.4, 90), (9999, 600)])
async def test_a_narration_has_the_length_that_was_asked_for_within_reason(school, chosen, asked, total):
    """B-R8."""
    made = await school.use("generateNarrationTool", target_duration=asked)
    segments = made["narration"]["segments"]
    assert sum(segment["duration"] for segment in segments) == total == made["narration"]["total_duration"]


async def test_facts_that_nobody_confirmed_must_be_the_materials(school):
    """B10, B22."""
    found = await school.use("extractFactsTool", content=material("the_moon").text)
    by_id = [{"id": fact["id"], "concept": "x", "details": "y"} for fact in found["facts"][:2]]
    made = await school.use("generateNarrationTool", facts=by_id)
    assert Narration.model_validate(made["narration"]).facts == {one["id"] for one in by_id}
    by_words = [{"concept": fact["concept"], "details": fact["details"]} for fact in found["facts"][:2]]
    assert (await school.use("generateNarrationTool", facts=by_words))["success"]
    refused = await school.use(
        "generateNarrationTool", facts=[{"concept": "Cheese", "details": "It is cheese."}]
    )
    assert "neither confirmed nor extracted" in refused["error"]


async def test_without_any_material_the_given_facts_are_told(school):
    given = [
        {"concept": "Tides", "details": "The Moon makes the tides. They come twice a day.", "confidence": 0.9}
    ]
    made = await school.use("generateNarrationTool", facts=given)
    assert made["narration"]["topic"] == "Tides"
    assert "The Moon makes the tides." in json.dumps(made["narration"])
    assert (await school.use("generateNarrationTool"))["type"] == "validation_error"


async def test_one_segment_is_written_again_and_the_others_stay(school, chosen):
    first = (await school.use("generateNarrationTool"))["narration"]
    again = await school.use("generateNarrationTool", segments=["conclusion"], target_duration=300)
    assert again["changedSegments"] == ["conclusion"]
    assert "conclusion" in again["message"]
    assert again["narration"]["segments"][:3] == first["segments"][:3]
    assert again["narration"]["total_duration"] == 60


async def test_segments_of_no_narration_cannot_be_written_again(school, chosen):
    assert "no narration to change" in (await school.use("generateNarrationTool", segments=["hook"]))["error"]


async def test_a_repeated_call_returns_what_it_did(school, opened):
    """Its receipt is found, and nothing is written twice."""
    same = LessonDouble(opened)
    first = await school.use("saveStudentInfoTool", child_age="7")
    assert await same.use("saveStudentInfoTool", child_age="8") == first
    assert len((await school.artefact.stream("student")).versions) == 1


def sheet(*facts, topic="Bees"):
    body = {"topic": topic, "learningObjective": "Know bees.", "facts": list(facts)}
    return Say(calls=[("c1", "FactSheet", json.dumps(body))], prompt_tokens=1000, completion_tokens=100)


def fact(quote, concept="Bees"):
    return {"concept": concept, "details": "Bees are busy. They fly.", "quote": quote, "confidence": 0.9}


async def test_a_vendors_model_fills_in_the_same_form_and_costs(opened, model: ChatDouble):
    """B7, B58: what its quote does not find in the material is left out and told of."""
    mars = fact("Bees live on Mars.", "Mars")
    model.script(sheet(fact("honey BEES visit flowers"), mars), sheet(mars))
    made = await LessonDouble(opened, model="openai").use(
        "extractFactsTool", content=material("two_sentences").text
    )
    assert [one["source"]["quote"] for one in made["facts"]] == ["Honey bees visit flowers"]
    assert any("Mars" in warning for warning in made["warnings"])
    assert made["cost"] == pytest.approx(2 * (1000 * 0.1e-6 + 100 * 0.5e-6))
    sent = model.requests[0]
    assert json.loads(sent.messages[-1]["content"])["material"].startswith("Honey bees")
    assert "no orders to you" in sent.messages[0]["content"]


async def test_a_form_filled_in_wrongly_is_asked_for_once_more(opened, model: ChatDouble):
    model.script(Say(calls=[("c1", "FactSheet", '{"topic": 1}')]), sheet(fact("collect nectar")))
    made = await LessonDouble(opened, model="openai").use(
        "extractFactsTool", content=material("two_sentences").text
    )
    assert made["success"]
    assert len(model.requests) == 2


async def test_two_wrong_forms_are_an_error_and_nothing_is_written(opened, model: ChatDouble):
    """B20, B65: with what to do about it."""
    model.script(*[Say(text="Sorry?")] * 8)
    school = LessonDouble(opened, model="openai")
    made = await school.use("extractFactsTool", content=material("two_sentences").text)
    assert (made["type"], made["retryable"]) == ("execution_error", True)
    assert made["suggestion"] == "try again, or choose another model"
    assert (await school.artefact.stream_head("facts")).newest is None


def script(words, ids, kinds=("hook", "concept_introduction", "process_explanation", "conclusion")):
    segments = [
        {
            "type": kind,
            "sentences": [{"text": " ".join(["Bees fly", *["on"] * (words - 2)]) + ".", "factIds": ids}],
            "visual_guidance": "Show bees.",
            "key_concepts": ["Bees"],
            "educational_purpose": "Learn.",
        }
        for kind in kinds
    ]
    return Say(calls=[("c1", "NarrationScript", json.dumps({"segments": segments, "notes": []}))])


async def narrated_by(model, opened, *replies):
    school = LessonDouble(opened, model="openai")
    facts = [{"id": "a", "concept": "Bees", "details": "Bees fly.", "confidence": 1}]
    await school.put("confirmed", {"facts": facts})
    model.script(*replies)
    return await school.use("generateNarrationTool")


async def test_a_vendors_model_is_told_what_does_not_fit_and_corrects_it(opened, model: ChatDouble):
    """B22, B-R9."""
    made = await narrated_by(model, opened, script(40, ["a"]), script(10, ["a"]))
    assert made["success"]
    problems = json.loads(model.requests[1].messages[-1]["content"])["problems"]
    assert problems[0] == "hook says 40 words, but has room for 22"


async def test_a_narration_without_all_its_segments_is_not_accepted(opened, model: ChatDouble):
    """B13."""
    made = await narrated_by(model, opened, *[script(5, ["a"], kinds=("hook", "conclusion"))] * 8)
    assert made["type"] == "execution_error"
    assert "the segment concept_introduction is missing" in made["error"]
    assert len(model.requests) == 2


def test_the_confirmed_facts_are_the_ones_to_tell():
    """B-R4."""
    kept = {"id": "a", "concept": "A", "details": "It is.", "confidence": 1}
    (only,) = lesson.chosen_facts([], {"facts": []}, {"facts": [kept]})
    assert only.id == "a"


def school_on(opened, wire):
    tools = index(
        lesson=[
            lesson.saveStudentInfoTool,
            lesson.create_extract_tool(web_client(wire)),
            lesson.generateNarrationTool,
        ]
    )
    return LessonDouble(opened, tools=tools, model="openai")


async def test_a_page_is_fetched_by_its_address_and_read_like_a_text(opened, model: ChatDouble):
    """B4, B-R17: what stands at a public address gives the words that pasting them gives."""
    text = material("the_moon").text
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    school = school_on(opened, FakeNetwork(moon_example=head + page(text)))
    model.script(sheet(fact("384,400 km from the Earth")))
    made = await school.use("extractFactsTool", content=" https://moon.example/figures ")
    assert made["success"], made
    kept = (await school.newest("facts"))["source"]
    assert (kept["kind"], kept["url"]) == ("page", "https://moon.example/figures")
    assert kept["text"] == sources.pasted_source(text).text


@pytest.mark.slow
async def test_a_pdf_and_a_plain_text_are_fetched_too(opened, model: ChatDouble):
    text = material("great_fire").text
    for media, body in (("application/pdf", pdf(text)), ("text/plain", text.encode())):
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\n\r\n".encode()
        school = school_on(opened, FakeNetwork(fire_example=head + body))
        model.script(sheet(fact("A firebreak is a gap")))
        made = await school.use("extractFactsTool", content="https://fire.example/")
        assert made["success"], made
        assert (await school.newest("facts"))["source"]["text"] == sources.pasted_source(text).text


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n<p>None here.</p>", "answers 404"),
        ("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\npng", "is not text"),
        ("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p></p>", "too few"),
    ],
)
async def test_an_address_that_holds_no_lesson_is_told_of(opened, model: ChatDouble, reply, words):
    """B-R17."""
    made = await school_on(opened, FakeNetwork(no_example=reply)).use(
        "extractFactsTool", content="http://no.example/"
    )
    assert words in made["error"]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest", "http://10.0.0.8"]
)
async def test_no_address_of_the_inner_network_is_asked(opened, model: ChatDouble, url):
    """B-R17."""
    made = await LessonDouble(opened, model="openai").use("extractFactsTool", content=url)
    assert made["type"] in {"permission_denied", "validation_error"}


class Counted(TypedDict):
    x: int


@pytest.mark.slow
async def test_a_long_material_is_read_with_progress(opened):
    """A person who watches the run is told how far the reading is."""
    school = LessonDouble(opened)
    text = material("struggle_for_existence").text
    await school.put("source", sources.pasted_source("\n\n".join([text] * 6)).data())

    async def node(state: Counted) -> Counted:
        assert (await school.use("extractFactsTool"))["success"]
        return {"x": 1}

    graph = StateGraph(Counted).add_node("node", node).add_edge(START, "node").compile()
    told = [event async for event in graph.astream({"x": 0}, stream_mode="custom")]
    assert [(event["done"], event["of"]) for event in told] == [(0, 2), (1, 2), (2, 2)]
