"""The line of a receipt: languages, long lists, and the message that carries it."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from callsheet.graphs import page_builder
from callsheet.nodes.question import decision_plan
from callsheet.state.campaigns.counting import match_words
from callsheet.state.errors import OutcomeUnknown, TimedOut
from callsheet.state.plan import is_same_target
from callsheet.state.receipts import (
    MAX_NAMED,
    MAX_REASON,
    Effects,
    ReceiptChange,
    has_effect,
    person_language,
    receipt,
    with_receipt,
    without_receipt,
)
from callsheet.state.sentences import has_question, is_question
from callsheet.state.workflow import new_turn
from callsheet.tools.guard.outcome import is_unknown, outcome_of_error


def change(name: str, version: str) -> ReceiptChange:
    return ReceiptChange(name=name, stream=name, versionId=version)


@pytest.mark.parametrize(
    ("text", "language", "line"),
    [
        ("Make the headline of the page blue", "english", "Nothing was changed."),
        ("Haz que el título de la página sea azul", "spanish", "No se ha cambiado nada."),
        ("Mach die Überschrift mit dem Preis blau", "german", "Es wurde nichts geändert."),
        ("Mets le titre de la page en bleu pour nous", "french", "Rien n’a été modifié."),
        ("Deixe o título da página em azul, por favor", "portuguese", "Nada foi alterado."),
        ("Zrób nagłówek na niebiesko i nie zmieniaj ceny", "polish", "Nic nie zmieniono."),
        ("Tolong buat judul yang ini lebih besar", "indonesian", "Tidak ada yang diubah."),
        ("เปลี่ยนหัวข้อเป็นสีน้ำเงิน", "thai", "ไม่มีการเปลี่ยนแปลง."),
        ("把标题改成蓝色", "chinese", "没有任何更改."),
        ("Rendi il titolo della pagina blu per noi", "english", "Nothing was changed."),
        ("ok", "english", "Nothing was changed."),
    ],
)
def test_the_line_is_in_the_persons_language(text: str, language: str, line: str) -> None:
    messages: list[AnyMessage] = [HumanMessage(text), AIMessage("Hello")]
    assert person_language(messages) == language
    assert receipt([], Effects(), [], language)["text"] == line


def test_a_line_names_the_last_version_of_each_part_and_counts_the_rest() -> None:
    changes = [change("voices", "v1"), change("music", "v1"), change("voices", "v2")]
    assert receipt(changes, Effects(), [], "english")["text"] == "Changed: voices v2 · music v1."
    line = receipt(changes, Effects(), [], "english", rounds=[1, 1, 1])["text"]
    assert line == "Changed: voices v1 · voices v2 · music v1."
    assert "voices v1" not in receipt(changes, Effects(), [], "english", rounds=[1, 1, 2])["text"]
    many = [change(f"part {at}", "v1") for at in range(MAX_NAMED + 3)]
    failures = ["it\n failed.", "x" * 999]
    line = receipt(many, Effects(failures, unchanged=2), ["A note."], "english")["text"]
    assert "· part 7 v1 · 3 more · 2 unchanged. Not done: it failed; xxx" in line
    assert line.endswith(f"{'x' * MAX_REASON}…. A note.")


def test_a_shown_line_is_a_part_of_its_own_that_models_are_not_sent() -> None:
    one = receipt([], Effects(["there is no card"]), [], "english")
    answer = AIMessage("It is blue.", id="a", additional_kwargs={"refusal": ""})
    shown = with_receipt(answer, one, shown=True)
    assert shown.text == "It is blue.\n\nNothing was changed: there is no card."
    assert with_receipt(shown, one, shown=True).text == shown.text
    assert with_receipt(answer, one, shown=False).text == "It is blue."
    assert without_receipt(shown) == answer
    parts = AIMessage([{"type": "text", "text": "It"}, {"type": "text", "text": " is."}])
    assert without_receipt(with_receipt(parts, one, shown=True)).content == parts.content
    assert without_receipt(with_receipt(answer, one, shown=False)) == answer
    assert without_receipt(answer) is answer


def test_a_line_names_what_was_done_outside_and_what_may_have_been() -> None:
    outside = receipt([], Effects(done=["Sending the mail"]), [], "english")
    assert (outside["text"], has_effect(outside)) == ("Done: Sending the mail.", True)
    doubtful = receipt([], Effects(["there is no card"], unknown=["the mail was cut off"]), [], "german")
    line = "Ergebnis unbekannt: the mail was cut off. Nicht ausgeführt: there is no card."
    assert (doubtful["text"], has_effect(doubtful)) == (line, True)
    assert not has_effect(receipt([], Effects(), [], "english"))


@pytest.mark.parametrize(
    ("failed", "done", "same"),
    [
        ({"elementId": "a", "text": "x"}, {"element_id": "a", "text": "y"}, True),
        ({"elementId": "a"}, {"elementId": "b"}, False),
        ({"adId": "other", "prompt": "x"}, {"adId": "ad", "prompt": "y"}, True),
        ('{"elementId": "a', {"elementId": "a"}, True),
        ('{"elementId": "a', {"elementId": "b"}, False),
        (None, {"elementId": "b"}, True),
        ({"elementId": "b"}, None, True),
    ],
)
def test_calls_have_the_same_target_by_their_ids(failed: Any, done: Any, *, same: bool) -> None:
    assert is_same_target(failed, done, "adId") is same


@pytest.mark.parametrize(
    ("text", "asks", "alone"),
    [
        ("Which one?", True, True),
        ("Which one? “This one?”", True, True),
        ("**哪一个吗**", True, True),
        ("It is blue. Anything else?", True, False),
        ("See https://example.org/?p=1 for “Why?”", False, False),
        ("", False, False),
    ],
)
def test_a_question_is_known_by_its_marks(text: str, *, asks: bool, alone: bool) -> None:
    assert (has_question(text), is_question(text)) == (asks, alone)


def test_a_decision_begins_a_turn_as_a_message_does() -> None:
    """Marks and the receipt of the turn before are not those of the decision's."""
    update = decision_plan(page_builder.WORKFLOW, "decision", "", [])
    assert update.items() >= new_turn().items()
    assert (update["nudged"], update["truncated"], update["receipt"]) == (False, False, None)


def test_an_effect_that_may_have_happened_is_no_failure() -> None:
    error = OutcomeUnknown("the answer was cut off")
    assert is_unknown(outcome_of_error(error).output)
    assert not is_unknown(outcome_of_error(TimedOut("too slow")).output)


def test_a_receipt_counts_the_further_changes_of_a_page_in_one_call():
    rules = page_builder.WORKFLOW.turn
    assert rules.change_name("page", {"changes": ["removed columns-1", "added nav-1"]}, None) == (
        "removed columns-1 and 1 more"
    )
    assert rules.change_name("page", {"changes": ["removed columns-1"]}, None) == "removed columns-1"
    assert rules.change_name("page", {}, None) == "page"


@pytest.mark.parametrize(("count", "words"), [(1, "1 campaign matches"), (2, "2 campaigns match")])
def test_the_number_of_matching_campaigns_agrees_with_its_verb(count: int, words: str):
    assert match_words(count) == words
