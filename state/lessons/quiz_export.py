"""Export of a quiz: Markdown to print, CSV for Anki, QTI 2.2 for learning platforms, JSON."""

import csv
import io
import re
from collections.abc import Mapping
from typing import Final
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element, SubElement

from callsheet.state.languages import find
from callsheet.state.lessons.narration_export import escape_markdown
from callsheet.state.lessons.quiz import GAP, Quiz, QuizQuestion
from callsheet.state.unicode import xml_safe

_QTI: Final = "http://www.imsglobal.org/xsd/imsqti_v2p2"
_PACKAGE: Final = "http://www.imsglobal.org/xsd/imscp_v1p1"
_TEMPLATES: Final = "http://www.imsglobal.org/question/qti_v2p2/rptemplates"
_FORMULA: Final = re.compile(r"[=@\t\r]|[+-](?![0-9][0-9.,]*+\Z)")
"""Start of a cell that a spreadsheet would run; a plain number with a sign is none."""
_ANKI: Final = "#separator:Comma\n#html:false\n#columns:Front,Back,Source\n"
"""Lines by which Anki reads the file as it is meant: nothing in it is HTML."""


def markdown(quiz: Quiz) -> str:
    """Return the questions, then the answers with what they are proven by."""
    questions, answers = [], []
    for number, question in enumerate(quiz.questions, 1):
        choices = "".join(
            f"\n   - {chr(ord('A') + at)}. {escape_markdown(text)}"
            for at, text in enumerate(question.choices)
        )
        questions.append(f"{number}. {escape_markdown(question.prompt)}{choices}")
        proof = "" if question.kind == "card" else f" ({escape_markdown(question.source)})"
        answers.append(f"{number}. **{escape_markdown(question.answer)}**{proof}")
    notes = [f"- {escape_markdown(note)}" for note in quiz.notes]
    parts = [f"# {escape_markdown(quiz.topic)}", "\n".join(questions), "## Answers", "\n".join(answers)]
    return "\n\n".join([*parts, *(["## Notes", "\n".join(notes)] if notes else [])]) + "\n"


def anki(quiz: Quiz) -> str:
    """Return a card for each question as CSV: front, back, and the fact."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for question in quiz.questions:
        front = "\n".join([question.prompt, *(f"– {choice}" for choice in question.choices)])
        cells = (front, question.answer, question.source)
        writer.writerow([f"'{cell}" if _FORMULA.match(cell) else cell for cell in cells])
    return _ANKI + file.getvalue()


def qti(quiz: Quiz) -> dict[str, bytes]:
    """Return the files of a QTI 2.2 content package by name: manifest, test, an item for each question."""
    items = {f"items/{question.id}.xml": _item(question, quiz.language) for question in quiz.questions}
    files = {"imsmanifest.xml": _manifest(quiz, list(items)), "test.xml": _test(quiz, list(items)), **items}
    return {name: _file(root) for name, root in files.items()}


def _file(root: Element) -> bytes:
    ET.indent(root)
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _add(parent: Element, name: str, text: str = "", **attributes: str) -> Element:
    element = SubElement(parent, name, {key: xml_safe(value) for key, value in attributes.items()})
    element.text = xml_safe(text) or None
    return element


def _manifest(quiz: Quiz, items: list[str]) -> Element:
    root = Element("manifest", {"xmlns": _PACKAGE, "identifier": "quiz"})
    metadata = _add(root, "metadata")
    _add(metadata, "schema", "QTIv2.2 Package")
    _add(metadata, "schemaversion", "1.0.0")
    _add(root, "organizations")
    resources = _add(root, "resources")
    test = _add(resources, "resource", identifier="test", type="imsqti_test_xmlv2p2", href="test.xml")
    _add(test, "file", href="test.xml")
    for question, name in zip(quiz.questions, items, strict=True):
        _add(test, "dependency", identifierref=question.id)
        item = _add(resources, "resource", identifier=question.id, type="imsqti_item_xmlv2p2", href=name)
        _add(item, "file", href=name)
    return root


def _test(quiz: Quiz, items: list[str]) -> Element:
    root = Element("assessmentTest", {"xmlns": _QTI, "identifier": "test", "title": xml_safe(quiz.topic)})
    part = _add(root, "testPart", identifier="part", navigationMode="nonlinear", submissionMode="individual")
    section = _add(part, "assessmentSection", identifier="section", title=quiz.topic, visible="true")
    for question, name in zip(quiz.questions, items, strict=True):
        _add(section, "assessmentItemRef", identifier=question.id, href=name)
    return root


def _item(question: QuizQuestion, language: str) -> Element:
    spec = find(language)
    code: Mapping[str, str] = {"xml:lang": spec.code} if spec else {}
    root = Element(
        "assessmentItem",
        {
            "xmlns": _QTI,
            "identifier": question.id,
            "title": xml_safe(question.prompt[:120]),
            **code,
            "adaptive": "false",
            "timeDependent": "false",
        },
    )
    chosen = question.kind == "choice"
    base = "identifier" if chosen else "string"
    given = _add(root, "responseDeclaration", identifier="RESPONSE", cardinality="single", baseType=base)
    right = f"choice-{question.choices.index(question.answer) + 1}" if chosen else question.answer
    _add(_add(given, "correctResponse"), "value", right)
    if question.kind in {"gap", "open"}:
        mapping = _add(given, "mapping", defaultValue="0")
        _add(mapping, "mapEntry", mapKey=question.answer, mappedValue="1", caseSensitive="false")
    _add(root, "outcomeDeclaration", identifier="SCORE", cardinality="single", baseType="float")
    _add_body(root, question)
    if question.kind != "card":
        template = "match_correct" if chosen else "map_response"
        _add(root, "responseProcessing", template=f"{_TEMPLATES}/{template}")
    return root


def _add_body(root: Element, question: QuizQuestion) -> None:
    body = _add(root, "itemBody")
    if question.kind == "choice":
        posed = _add(
            body, "choiceInteraction", responseIdentifier="RESPONSE", shuffle="false", maxChoices="1"
        )
        _add(posed, "prompt", question.prompt)
        for at, text in enumerate(question.choices, 1):
            _add(posed, "simpleChoice", text, identifier=f"choice-{at}")
        return
    if question.kind == "card":
        posed = _add(body, "extendedTextInteraction", responseIdentifier="RESPONSE")
        _add(posed, "prompt", question.prompt)
        return
    before, gap, after = question.prompt.partition(GAP)
    line = _add(body, "p", before if gap else f"{before} ")
    length = str(len(question.answer))
    entry = _add(line, "textEntryInteraction", responseIdentifier="RESPONSE", expectedLength=length)
    entry.tail = xml_safe(after) or None
