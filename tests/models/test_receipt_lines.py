"""The line of a receipt: languages, long lists, and the message that carries it."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from callsheet.state.receipts import (
    MAX_NAMED,
    MAX_REASON,
    ReceiptChange,
    person_language,
    receipt,
    with_receipt,
    without_receipt,
)


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
    assert receipt([], [], [], language)["text"] == line


def test_a_line_names_the_last_version_of_each_part_and_counts_the_rest() -> None:
    changes = [change("voices", "v1"), change("music", "v1"), change("voices", "v2")]
    assert receipt(changes, [], [], "english")["text"] == "Changed: voices v2 · music v1."
    many = [change(f"part {at}", "v1") for at in range(MAX_NAMED + 3)]
    line = receipt(many, ["it\n failed.", "x" * 999], ["A note."], "english", unchanged=2)["text"]
    assert "· part 7 v1 · 3 more · 2 unchanged. Not done: it failed; xxx" in line
    assert line.endswith(f"{'x' * MAX_REASON}…. A note.")


def test_a_shown_line_is_a_part_of_its_own_that_models_are_not_sent() -> None:
    one = receipt([], ["there is no card"], [], "english")
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
