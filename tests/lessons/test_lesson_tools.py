"""The tools of a lesson, called through the guard (B1-B23, B-R4, B-R11)."""

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
from tests.lessons.lesson_material import material
from tests.lessons.lesson_tools import LessonTools
from tests.lessons.test_sources import html_page


@pytest.fixture
def lesson_tools(opened):
    return LessonTools(opened)


@pytest.fixture
async def confirmed_facts(lesson_tools):
    """A lesson about photosynthesis with three confirmed facts."""
    extraction = await lesson_tools.call("extractFactsTool", content=material("photosynthesis").text)
    facts = [extraction["facts"][i] for i in (0, 2, 4)]
    await lesson_tools.create_version("confirmed", {"facts": facts})
    return facts


def test_a_model_is_sent_the_four_tools_with_their_fields():
    """B1, B2, B4, B9, B57."""
    functions = {
        function["function"]["name"]: function["function"] for function in definitions(REGISTRY.of("lesson"))
    }
    assert set(functions) == {
        "saveStudentInfoTool",
        "extractFactsTool",
        "chooseFactsTool",
        "generateNarrationTool",
    }
    fields = {name: set(function["parameters"]["properties"]) for name, function in functions.items()}
    assert fields["saveStudentInfoTool"] == {"child_age", "child_interest", "learning_style"}
    assert {"content"} <= fields["extractFactsTool"]
    expected = {"facts", "topic", "target_duration", "child_age", "child_interest"}
    assert expected <= fields["generateNarrationTool"]
    assert "ALWAYS" in functions["extractFactsTool"]["description"]


async def test_student_fields_are_stored_and_added_to_earlier_ones(lesson_tools):
    """B2, B3, B69, B-R11."""
    result = await lesson_tools.call("saveStudentInfoTool", child_age="10", child_interest="soccer")
    assert (result["success"], result["child_age"], result["child_interest"]) == (True, "10", "soccer")
    assert result["message"] == "Noted: age 10 and likes soccer."
    result = await lesson_tools.call("saveStudentInfoTool", child_interest="Minecraft")
    assert (result["child_age"], result["child_interest"]) == ("10", "Minecraft")
    assert await lesson_tools.newest_data("student") == {"child_age": "10", "child_interest": "Minecraft"}


async def test_a_numeric_age_is_stored_and_an_unclear_one_gets_a_warning(lesson_tools):
    assert (await lesson_tools.call("saveStudentInfoTool", child_age=7))["child_age"] == "7"
    result = await lesson_tools.call("saveStudentInfoTool", child_age="quite small")
    assert "quite small" in result["warnings"][0]


async def test_a_call_without_any_student_field_is_refused(lesson_tools):
    assert (await lesson_tools.call("saveStudentInfoTool"))["type"] == "validation_error"


async def test_a_session_id_in_the_models_call_is_ignored(lesson_tools):
    """B23."""
    result = await lesson_tools.call("saveStudentInfoTool", child_age="9", sessionId="someone-elses")
    assert result["success"]
    assert await lesson_tools.newest_data("student") == {"child_age": "9", "child_interest": None}


async def test_pasted_text_becomes_stored_facts_with_their_quotes(lesson_tools):
    """B4, B6, B8, B18, B69."""
    result = await lesson_tools.call("extractFactsTool", content=material("photosynthesis").text)
    assert result["success"]
    assert (result["topic"], result["status"]) == ("Photosynthesis", "facts_extracted")
    assert result["message"].startswith("I found 7 facts about Photosynthesis.")
    assert result["learningObjective"]
    assert (result["cost"], result["duration"] > 0) == (0, True)
    stored = await lesson_tools.newest_data("facts")
    assert [fact["id"] for fact in stored["facts"]] == [fact["id"] for fact in result["facts"]]
    text = stored["source"]["text"]
    for fact in stored["facts"]:
        assert text[fact["source"]["start"] : fact["source"]["end"]] == fact["source"]["quote"]


async def test_an_upload_is_read_completely_if_the_model_copies_a_part_of_it(lesson_tools):
    """B5, B42."""
    source = sources.pasted_source(material("the_moon").text, "moon.txt")
    version = await lesson_tools.create_version("source", source.data())
    result = await lesson_tools.call("extractFactsTool", content=material("the_moon").text[:200])
    assert result["topic"] == "The Moon in figures"
    stored = await lesson_tools.newest_data("facts")
    assert (stored["source"]["version"], stored["source"]["name"]) == (version, "moon.txt")
    assert "text" not in stored["source"]


async def test_a_text_in_the_call_takes_precedence_over_an_unread_upload(lesson_tools):
    """B5: "not the file, use this text instead"."""
    await lesson_tools.create_version(
        "source", sources.pasted_source(material("the_moon").text, "moon.txt").data()
    )
    assert (await lesson_tools.call("extractFactsTool", content=material("injection").text))[
        "topic"
    ] == "Rivers"


async def test_a_new_text_is_read_after_an_upload_was_read(lesson_tools):
    await lesson_tools.create_version("source", sources.pasted_source(material("the_moon").text).data())
    assert (await lesson_tools.call("extractFactsTool"))["topic"] == "The Moon in figures"
    result = await lesson_tools.call("extractFactsTool", content=material("injection").text)
    assert result["topic"] == "Rivers"
    assert (await lesson_tools.call("extractFactsTool", content=""))["topic"] == "The Moon in figures"


async def test_a_call_with_guidance_finds_other_facts_of_the_same_text(lesson_tools):
    text = material("struggle_for_existence").text
    first = await lesson_tools.call("extractFactsTool", content=text)
    second = await lesson_tools.call("extractFactsTool", content=text, guidance="the mistletoe, please")
    assert "mistletoe" in json.dumps(second["facts"])
    assert not {fact["id"] for fact in first["facts"]} & {fact["id"] for fact in second["facts"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "too few"),
        ("Home | About us | Log in | Contact", "contains no facts"),
        ("https://example.org/", "fetches no web pages"),
    ],
)
async def test_content_without_facts_is_refused_with_a_suggestion(lesson_tools, content, words):
    result = await lesson_tools.call("extractFactsTool", content=content)
    assert result["type"] == "validation_error"
    assert words in result["error"]
    assert result["suggestion"]


async def test_only_confirmed_facts_are_narrated(lesson_tools, confirmed_facts):
    """B10, B11, B16, B17, B22, B69, B-R4."""
    await lesson_tools.call("saveStudentInfoTool", child_age="10", child_interest="soccer")
    invented = {"concept": "Aliens", "details": "Aliens eat leaves."}
    result = await lesson_tools.call("generateNarrationTool", facts=[invented], topic="Aliens")
    assert result["success"]
    assert result["status"] == "script_generated"
    narration = Narration.model_validate(result["narration"])
    assert narration.facts == {fact["id"] for fact in confirmed_facts}
    assert "Aliens" not in narration.model_dump_json()
    assert (narration.total_duration, narration.reading_level, narration.topic) == (
        60,
        "4.5",
        "Photosynthesis",
    )
    assert "soccer" in narration.model_dump_json()
    assert await lesson_tools.newest_data("narration") == result["narration"]


async def test_a_narration_needs_no_student(lesson_tools, confirmed_facts):
    """B55."""
    result = await lesson_tools.call("generateNarrationTool")
    assert result["narration"]["reading_level"] == "6.5"


async def test_the_stored_age_takes_precedence_over_the_models_argument(lesson_tools, confirmed_facts):
    """B10."""
    await lesson_tools.call("saveStudentInfoTool", child_age="6")
    result = await lesson_tools.call("generateNarrationTool", child_age="15", child_interest="chess")
    assert result["narration"]["reading_level"] == "3.5"
    assert "chess" in json.dumps(result["narration"])


@pytest.mark.parametrize(("wish_s", "total_s"), [(60, 60), (3, 15), (90.4, 90), (9999, 600)])
async def test_a_narration_has_the_requested_length_within_limits(
    lesson_tools, confirmed_facts, wish_s, total_s
):
    """B-R8."""
    result = await lesson_tools.call("generateNarrationTool", target_duration=wish_s)
    segments = result["narration"]["segments"]
    assert (
        sum(segment["duration"] for segment in segments) == total_s == result["narration"]["total_duration"]
    )


async def test_unconfirmed_facts_are_narrated_only_if_they_were_extracted(lesson_tools):
    """B10, B22."""
    extraction = await lesson_tools.call("extractFactsTool", content=material("the_moon").text)
    by_id = [{"id": fact["id"], "concept": "x", "details": "y"} for fact in extraction["facts"][:2]]
    result = await lesson_tools.call("generateNarrationTool", facts=by_id)
    assert Narration.model_validate(result["narration"]).facts == {fact["id"] for fact in by_id}
    by_words = [{"concept": fact["concept"], "details": fact["details"]} for fact in extraction["facts"][:2]]
    assert (await lesson_tools.call("generateNarrationTool", facts=by_words))["success"]
    refusal = await lesson_tools.call(
        "generateNarrationTool", facts=[{"concept": "Cheese", "details": "It is cheese."}]
    )
    assert "neither confirmed nor extracted" in refusal["error"]


async def test_facts_in_the_call_are_narrated_if_there_is_no_material(lesson_tools):
    facts = [
        {"concept": "Tides", "details": "The Moon makes the tides. They come twice a day.", "confidence": 0.9}
    ]
    result = await lesson_tools.call("generateNarrationTool", facts=facts)
    assert result["narration"]["topic"] == "Tides"
    assert "The Moon makes the tides." in json.dumps(result["narration"])
    assert (await lesson_tools.call("generateNarrationTool"))["type"] == "validation_error"


async def test_one_segment_is_regenerated_and_the_others_stay(lesson_tools, confirmed_facts):
    first = (await lesson_tools.call("generateNarrationTool"))["narration"]
    second = await lesson_tools.call("generateNarrationTool", segments=["conclusion"], target_duration=300)
    assert second["changedSegments"] == ["conclusion"]
    assert "conclusion" in second["message"]
    assert second["narration"]["segments"][:3] == first["segments"][:3]
    assert second["narration"]["total_duration"] == 60


async def test_regenerating_a_segment_without_a_narration_is_refused(lesson_tools, confirmed_facts):
    assert (
        "no narration to change"
        in (await lesson_tools.call("generateNarrationTool", segments=["hook"]))["error"]
    )


async def test_a_repeated_call_returns_its_stored_result(lesson_tools, opened):
    """Its receipt is read, and no second version is written."""
    repeated = LessonTools(opened)
    first = await lesson_tools.call("saveStudentInfoTool", child_age="7")
    assert await repeated.call("saveStudentInfoTool", child_age="8") == first
    assert len((await lesson_tools.artefact.stream("student")).versions) == 1


def fact_sheet(*facts, topic="Bees"):
    body = {"topic": topic, "learningObjective": "Know bees.", "facts": list(facts)}
    return Say(calls=[("c1", "FactSheet", json.dumps(body))], prompt_tokens=1000, completion_tokens=100)


def fact(quote, concept="Bees"):
    return {"concept": concept, "details": "Bees are busy. They fly.", "quote": quote, "confidence": 0.9}


async def test_a_fact_whose_quote_is_not_in_the_material_is_left_out_with_a_warning(
    opened, model: ChatDouble
):
    """B7, B58: also counts the cost of both requests."""
    mars = fact("Bees live on Mars.", "Mars")
    model.script(fact_sheet(fact("honey BEES visit flowers"), mars), fact_sheet(mars))
    result = await LessonTools(opened, model="openai").call(
        "extractFactsTool", content=material("two_sentences").text
    )
    assert [one["source"]["quote"] for one in result["facts"]] == ["Honey bees visit flowers"]
    assert any("Mars" in warning for warning in result["warnings"])
    assert result["cost"] == pytest.approx(2 * (1000 * 0.1e-6 + 100 * 0.5e-6))
    request = model.requests[0]
    assert json.loads(request.messages[-1]["content"])["material"].startswith("Honey bees")
    assert "no orders to you" in request.messages[0]["content"]


async def test_an_invalid_form_is_requested_once_more(opened, model: ChatDouble):
    model.script(Say(calls=[("c1", "FactSheet", '{"topic": 1}')]), fact_sheet(fact("collect nectar")))
    result = await LessonTools(opened, model="openai").call(
        "extractFactsTool", content=material("two_sentences").text
    )
    assert result["success"]
    assert len(model.requests) == 2


async def test_two_invalid_forms_are_an_error_and_no_version_is_written(opened, model: ChatDouble):
    """B20, B65: with a suggestion."""
    model.script(*[Say(text="Sorry?")] * 8)
    lesson_tools = LessonTools(opened, model="openai")
    result = await lesson_tools.call("extractFactsTool", content=material("two_sentences").text)
    assert (result["type"], result["retryable"]) == ("execution_error", True)
    assert result["suggestion"] == "try again, or choose another model"
    assert (await lesson_tools.artefact.stream_head("facts")).newest is None


def narration_script(words, ids, kinds=("hook", "concept_introduction", "process_explanation", "conclusion")):
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


async def narrate_with(model, opened, *replies):
    lesson_tools = LessonTools(opened, model="openai")
    facts = [{"id": "a", "concept": "Bees", "details": "Bees fly.", "confidence": 1}]
    await lesson_tools.create_version("confirmed", {"facts": facts})
    model.script(*replies)
    return await lesson_tools.call("generateNarrationTool")


async def test_a_segment_that_is_too_long_is_requested_again_with_the_problem(opened, model: ChatDouble):
    """B22, B-R9."""
    result = await narrate_with(model, opened, narration_script(40, ["a"]), narration_script(10, ["a"]))
    assert result["success"]
    problems = json.loads(model.requests[1].messages[-1]["content"])["problems"]
    assert problems[0] == "hook says 40 words, but has room for 22"


async def test_a_narration_with_missing_segments_is_an_error(opened, model: ChatDouble):
    """B13."""
    result = await narrate_with(
        model, opened, *[narration_script(5, ["a"], kinds=("hook", "conclusion"))] * 8
    )
    assert result["type"] == "execution_error"
    assert "the segment concept_introduction is missing" in result["error"]
    assert len(model.requests) == 2


def test_confirmed_facts_take_precedence_over_extracted_ones():
    """B-R4."""
    confirmed = {"id": "a", "concept": "A", "details": "It is.", "confidence": 1}
    (chosen,) = lesson.chosen_facts([], {"facts": []}, {"facts": [confirmed]})
    assert chosen.id == "a"


def tools_with_web(opened, wire):
    tools = index(
        lesson=[
            lesson.saveStudentInfoTool,
            lesson.create_extract_tool(web_client(wire)),
            lesson.generateNarrationTool,
        ]
    )
    return LessonTools(opened, tools=tools, model="openai")


async def test_a_web_page_is_fetched_and_gives_the_text_that_pasting_gives(opened, model: ChatDouble):
    """B4, B-R17."""
    text = material("the_moon").text
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    lesson_tools = tools_with_web(opened, FakeNetwork(moon_example=head + html_page(text)))
    model.script(fact_sheet(fact("384,400 km from the Earth")))
    result = await lesson_tools.call("extractFactsTool", content=" https://moon.example/figures ")
    assert result["success"], result
    source = (await lesson_tools.newest_data("facts"))["source"]
    assert (source["kind"], source["url"]) == ("page", "https://moon.example/figures")
    assert source["text"] == sources.pasted_source(text).text


@pytest.mark.slow
async def test_a_pdf_and_a_plain_text_are_fetched_from_the_web(opened, model: ChatDouble):
    text = material("great_fire").text
    for media, body in (("application/pdf", pdf(text)), ("text/plain", text.encode())):
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\n\r\n".encode()
        lesson_tools = tools_with_web(opened, FakeNetwork(fire_example=head + body))
        model.script(fact_sheet(fact("A firebreak is a gap")))
        result = await lesson_tools.call("extractFactsTool", content="https://fire.example/")
        assert result["success"], result
        assert (await lesson_tools.newest_data("facts"))["source"]["text"] == sources.pasted_source(text).text


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n<p>None here.</p>", "answers 404"),
        ("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\npng", "is not text"),
        ("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p></p>", "too few"),
    ],
)
async def test_a_web_address_without_readable_text_is_refused_with_the_reason(
    opened, model: ChatDouble, reply, words
):
    """B-R17."""
    result = await tools_with_web(opened, FakeNetwork(no_example=reply)).call(
        "extractFactsTool", content="http://no.example/"
    )
    assert words in result["error"]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest", "http://10.0.0.8"]
)
async def test_no_private_address_is_fetched(opened, model: ChatDouble, url):
    """B-R17."""
    result = await LessonTools(opened, model="openai").call("extractFactsTool", content=url)
    assert result["type"] in {"permission_denied", "validation_error"}


class ReadingState(TypedDict):
    x: int


@pytest.mark.slow
async def test_reading_a_long_material_streams_its_progress(opened):
    """A person who watches the run sees how far the reading is."""
    lesson_tools = LessonTools(opened)
    text = material("struggle_for_existence").text
    await lesson_tools.create_version("source", sources.pasted_source("\n\n".join([text] * 6)).data())

    async def node(state: ReadingState) -> ReadingState:
        assert (await lesson_tools.call("extractFactsTool"))["success"]
        return {"x": 1}

    graph = StateGraph(ReadingState).add_node("node", node).add_edge(START, "node").compile()
    events = [event async for event in graph.astream({"x": 0}, stream_mode="custom")]
    assert [(event["done"], event["of"]) for event in events] == [(0, 2), (1, 2), (2, 2)]
