"""The quiz about a lesson's chosen facts: made by code, or written by a model and proven by its facts."""

import csv
import io
import json
import zipfile
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from pydantic import ValidationError

from callsheet.graphs import fact_narration
from callsheet.state.lessons import quiz_export
from callsheet.state.lessons.facts import Fact, new_fact
from callsheet.state.lessons.proof import ProofContext
from callsheet.state.lessons.quiz import GAP, Quiz, QuizQuestion, gap_quiz, holds, question_problem
from tests.lessons.lesson_client import SESSION, LessonClient, ok
from tests.lessons.lesson_model import OPENAI, LessonModel, lesson_model  # noqa: F401

GRAPHS = {"fact_narration": fact_narration.graph}
QUIZ = f"{SESSION}/quiz"
MOON = new_fact("Moon", "Neil Armstrong walked on the Moon in 1969. Twelve people have been there.")
QTI = "{http://www.imsglobal.org/xsd/imsqti_v2p2}"
PACKAGE = "{http://www.imsglobal.org/xsd/imscp_v1p1}"


def problem_of(prompt: str, answer: str, *choices: str, fact: Fact = MOON) -> str:
    kind: Any = "choice" if choices else "open"
    question = QuizQuestion(
        id="q1",
        factId=fact.id,
        kind=kind,
        prompt=prompt,
        answer=answer,
        choices=(*choices, answer) if choices else (),
        source=fact.details,
    )
    background = ProofContext((), (fact,), "english")
    return question_problem(question, {fact.id: fact}, background)


def test_a_question_is_proven_only_if_its_answer_stands_in_the_fact_and_not_in_the_question() -> None:
    assert problem_of("When did Neil Armstrong walk on the Moon?", "1969", "1970") == ""
    assert problem_of("How many people have been on the Moon?", "12") == ""
    assert "does not stand in its fact" in problem_of("When did he walk on the Moon?", "1970")
    assert "does not stand in its fact" in problem_of("Who walked on the Moon?", "Neil Arm")
    assert "gives its own answer away" in problem_of("Was 1969 the year of the Moon walk?", "1969")
    assert "Gagarin" in problem_of("Who walked on the Moon with Yuri Gagarin?", "Neil Armstrong")
    assert "stands in its fact, too" in problem_of("How many people walked on the Moon?", "twelve", "1969")
    assert "asks nothing" in problem_of("Which of these are animals with fur and teeth?", "people")
    assert "none of the facts" in question_problem(
        QuizQuestion(id="q1", factId="fact-0", kind="open", prompt="?", answer="x", source=""),
        {},
        ProofContext((), (), "english"),
    )


def test_an_answer_in_a_script_without_blanks_stands_in_its_fact() -> None:
    assert holds("植物通过光合作用制造食物。", "光合作用", "chinese")
    assert not holds("植物通过光合作用制造食物。", "呼吸作用", "chinese")
    assert not holds("Es sind 1969 Menschen.", "969", "german")


@pytest.mark.parametrize(
    ("language", "concept", "details", "prompt", "answer"),
    [
        ("chinese", "光合作用", "植物通过光合作用制造食物。", f"植物通过{GAP}制造食物。", "光合作用"),
        ("chinese", "水", "水在100度的时候沸腾。", f"水在{GAP}度的时候沸腾。", "100"),
        ("thai", "ดวงจันทร์", "ดวงจันทร์อยู่ห่างจากโลกมาก", f"{GAP}อยู่ห่างจากโลกมาก", "ดวงจันทร์"),
        (
            "german",
            "Mond",
            "Der Mond ist 384.400 km entfernt.",
            f"Der Mond ist {GAP} km entfernt.",
            "384.400",
        ),
    ],
)
def test_gaps_are_made_in_scripts_without_blanks_and_in_other_languages(
    language: str, concept: str, details: str, prompt: str, answer: str
) -> None:
    [question] = gap_quiz([new_fact(concept, details)], "t", language).questions
    assert (question.prompt, question.answer) == (prompt, answer)
    assert not holds("水在1000度沸腾。", "100", "chinese")


def test_a_gap_is_a_number_else_a_name_else_the_term_of_the_fact() -> None:
    facts = [
        MOON,
        new_fact("Explorer", "The first to walk there was Neil Armstrong, a test pilot."),
        new_fact("stomata", "Leaves take in air through tiny holes called stomata."),
        new_fact("Light", "It is bright."),
    ]
    quiz = gap_quiz(facts, "Space", "english")
    assert [one.answer for one in quiz.questions] == ["1969", "Neil", "stomata", "It is bright."]
    assert quiz.questions[0].prompt == f"Neil Armstrong walked on the Moon in {GAP}."
    assert [one.kind for one in quiz.questions] == ["gap", "gap", "gap", "card"]
    assert all(one.answer in one.source for one in quiz.questions)


async def test_a_quiz_of_the_chosen_facts_is_exported_without_a_model(lesson_client: LessonClient) -> None:
    reply = await lesson_client.send("Hello!")
    early = await lesson_client.request("GET", QUIZ)
    assert (early.status_code, "choose facts" in early.json()["remedy"]) == (404, True)
    reply = await lesson_client.create_narration()
    chosen = {fact["id"]: fact["details"] for fact in reply["confirmedFacts"]}
    quiz = Quiz.model_validate(ok(await lesson_client.request("GET", QUIZ)))
    assert (quiz.madeBy, [one.factId for one in quiz.questions]) == ("code", list(chosen))
    assert all(one.answer in chosen[one.factId] for one in quiz.questions)
    printed = (await lesson_client.request("GET", f"{QUIZ}?format=md")).text
    assert printed.startswith(f"# {quiz.topic}\n\n1. ")
    assert f"1. **{quiz.questions[0].answer}**" in printed.partition("## Answers")[2]
    cards = (await lesson_client.request("GET", f"{QUIZ}?format=csv")).text
    rows = [row for row in csv.reader(io.StringIO(cards)) if not row[0].startswith("#")]
    assert [row[:2] for row in rows] == [[one.prompt, one.answer] for one in quiz.questions]
    first = await lesson_client.request("GET", f"{QUIZ}?format=qti")
    assert first.content == (await lesson_client.request("GET", f"{QUIZ}?format=qti")).content
    assert_package(first.content, quiz)


def assert_package(content: bytes, quiz: Quiz) -> None:
    """Check a QTI 2.2 package by its structure: every reference leads somewhere, every answer is declared."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: ET.fromstring(archive.read(name)) for name in archive.namelist()}
    manifest = files.pop("imsmanifest.xml")
    resources = manifest.findall(f"{PACKAGE}resources/{PACKAGE}resource")
    assert {one.get("href") for one in resources} == set(files)
    assert {one.get("type") for one in resources} == {"imsqti_test_xmlv2p2", "imsqti_item_xmlv2p2"}
    known = {one.get("identifier") for one in resources}
    assert {one.get("identifierref") for one in manifest.iter(f"{PACKAGE}dependency")} == known - {"test"}
    test = files.pop("test.xml")
    assert [one.get("href") for one in test.iter(f"{QTI}assessmentItemRef")] == list(files)
    for question, item in zip(quiz.questions, files.values(), strict=True):
        parts = [part.tag.removeprefix(QTI) for part in item]
        assert parts[:3] == ["responseDeclaration", "outcomeDeclaration", "itemBody"]
        assert {one.get("responseIdentifier") for one in item.iter() if one.get("responseIdentifier")} == {
            "RESPONSE"
        }
        value = item.findtext(f"{QTI}responseDeclaration/{QTI}correctResponse/{QTI}value")
        choices = {one.get("identifier"): one.text for one in item.iter(f"{QTI}simpleChoice")}
        assert choices.get(value, value) == question.answer
        text = "".join(item.find(f"{QTI}itemBody").itertext())  # type: ignore[union-attr]
        assert question.prompt.partition(GAP)[0].strip() in text


def script_quiz(model: LessonModel, *questions: dict[str, Any]) -> None:
    model.scripted_quizzes.append({"questions": [*questions]})


async def test_a_false_question_of_a_model_goes_back_once_and_is_then_left_out(
    lesson_client: LessonClient,
    lesson_model: LessonModel,  # noqa: F811
) -> None:
    reply = await lesson_client.create_narration()
    fact = reply["confirmedFacts"][0]
    word = max(fact["details"].strip(".").split(), key=len).strip(".,")
    prompt = f"Which word says it: {fact['details'].replace(word, '…')}"
    right = {"factId": fact["id"], "question": prompt, "answer": word, "wrongAnswers": ["quartz", "granite"]}
    script_quiz(
        lesson_model,
        right,
        {**right, "question": "How many are there?", "answer": "4711"},
        {**right, "question": "Did Napoleon Bonaparte see it?"},
    )
    script_quiz(lesson_model, {**right, "question": "How many are there?", "answer": "4711"})
    turn = ok(await lesson_client.post(QUIZ, **OPENAI))
    assert turn["success"], turn
    assert "4711" in lesson_model.quiz_requests[1][-1]["content"]
    assert "Napoleon" in lesson_model.quiz_requests[1][-1]["content"]
    quiz = Quiz.model_validate(ok(await lesson_client.request("GET", QUIZ)))
    assert (quiz.madeBy, [one.prompt for one in quiz.questions]) == ("model", [prompt])
    assert set(quiz.questions[0].choices) == {word, "quartz", "granite"}
    # Two were wrong, and one correction came.
    assert [[word in note for word in ("4711", "Napoleon")] for note in quiz.notes] == [
        [False, True],
        [True, False],
    ]
    assert "The quiz has 1 question about" in turn["output"]
    assert json.loads(turn["output"])["warnings"] == list(quiz.notes)
    package = await lesson_client.request("GET", f"{QUIZ}?format=qti")
    assert_package(package.content, quiz)
    printed = (await lesson_client.request("GET", f"{QUIZ}?format=md")).text
    assert "- A. " in printed
    assert "## Notes" in printed
    # Another choice of facts: the written quiz asks about none of them.
    await lesson_client.choose_facts(reply["facts"][3]["id"], **OPENAI)
    other = Quiz.model_validate(ok(await lesson_client.request("GET", QUIZ)))
    assert (other.madeBy, len(other.questions)) == ("code", 1)


async def test_without_a_model_a_written_quiz_is_the_one_made_by_code(lesson_client: LessonClient) -> None:
    await lesson_client.create_narration()
    turn = ok(await lesson_client.post(QUIZ, count=2))
    assert (turn["success"], len(json.loads(turn["output"])["quiz"]["questions"])) == (True, 2)
    assert [version["stream"] for version in turn["created"]] == ["quiz"]
    quiz = Quiz.model_validate(ok(await lesson_client.request("GET", QUIZ)))
    assert (quiz.madeBy, len(quiz.questions)) == ("code", 2)
    refusal = await lesson_client.post(QUIZ, count=0)
    assert refusal.status_code == 422


async def test_a_model_whose_questions_are_all_false_writes_no_quiz(
    lesson_client: LessonClient,
    lesson_model: LessonModel,  # noqa: F811
) -> None:
    reply = await lesson_client.create_narration()
    wrong = {"factId": reply["confirmedFacts"][0]["id"], "question": "How many?", "answer": "4711"}
    for _ in range(2):
        script_quiz(lesson_model, wrong)
    turn = ok(await lesson_client.post(QUIZ, **OPENAI))
    assert (turn["success"], "4711" in turn["message"]) == (False, True)
    assert ok(await lesson_client.request("GET", QUIZ))["madeBy"] == "code"


def test_a_card_is_exported_as_a_free_text_whose_answer_nobody_scores() -> None:
    quiz = gap_quiz([new_fact("Light", "It is bright."), MOON], "Light", "klingon")
    files = {name: ET.fromstring(content) for name, content in quiz_export.qti(quiz).items()}
    card = files["items/q1.xml"]
    assert card.findtext(f".//{QTI}extendedTextInteraction/{QTI}prompt") == "Light"
    assert card.find(f"{QTI}responseProcessing") is None
    assert "1. **It is bright.**\n" in quiz_export.markdown(quiz)


def test_a_question_with_a_free_answer_has_its_field_behind_it() -> None:
    question = QuizQuestion(id="q1", factId="f", kind="open", prompt="When?", answer="1969", source="1969")
    quiz = Quiz(topic="Moon", language="english", madeBy="model", questions=(question,))
    item = ET.fromstring(quiz_export.qti(quiz)["items/q1.xml"])
    assert item.findtext(f".//{QTI}p") == "When? "


def test_a_cell_of_the_cards_never_starts_a_formula() -> None:
    [question] = gap_quiz([MOON], "Moon", "english").questions
    for answer, cell in (("=A1", "'=A1"), ("@SUM(1)", "'@SUM(1)"), ("+1+A1", "'+1+A1"), ("-5", "-5")):
        card = question.model_copy(update={"answer": answer})
        quiz = Quiz(topic="t", language="english", madeBy="model", questions=(card,))
        assert f'"{cell}"' in quiz_export.anki(quiz)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": "../../../evil"}, "should match pattern"),
        ({"id": "q2"}, "the same id"),
        ({"kind": "choice", "choices": ["1970"]}, "none of the choices"),
    ],
)
def test_a_quiz_that_cannot_be_exported_is_refused(changes: dict[str, Any], reason: str) -> None:
    question = {"id": "q1", "factId": "f", "kind": "open", "prompt": "When?", "answer": "1969", "source": "s"}
    sheet = {"topic": "t", "language": "english", "madeBy": "model"}
    Quiz.model_validate({**sheet, "questions": [question, {**question, "id": "q2"}]})
    with pytest.raises(ValidationError, match=reason):
        Quiz.model_validate({**sheet, "questions": [{**question, **changes}, {**question, "id": "q2"}]})
