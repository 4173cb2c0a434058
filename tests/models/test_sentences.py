"""The sentences of a text."""

import time

import pytest

from callsheet.state.sentences import sentence_spans, split_sentences

CASES = {
    "english": [
        "Dr. Vale met Prof. Lee.",
        "They paid $3.50 at 5 p.m. in St. Louis.",
        "“Why?” she asked.",
        "No. 5!",
    ],
    "german": [
        "Der Turm wurde am 3. Mai gebaut.",
        "Im 12. Jahrhundert lebten dort z. B. Händler.",
        "Dr. Berg zahlt 5 Euro inkl. MwSt. heute.",
        "Er ist 5.",
        "Das ist gut.",
    ],
    "french": ["M. Dupont est né en 1871.", "Il habite 5 av. Foch.", "Qui est-ce ?"],
    "spanish": ["El Sr. López llegó a las 5 p. m.", "¿Quién es?", "¡Hola!"],
    "polish": ["Prof. Kowalski mieszka na ul. Długiej 5.", "To było w 1999 r.", "Potem wyjechał."],
    "hindi": ["यह अच्छा है।", "वह गया।"],
    "thai": ["สวัสดีครับ วันนี้อากาศดี"],
}


@pytest.mark.parametrize("language", CASES)
def test_abbreviations_and_ordinal_numbers_end_no_sentence(language: str) -> None:
    assert split_sentences(" ".join(CASES[language]), language) == CASES[language]


@pytest.mark.parametrize("language", ["chinese", ""])
def test_chinese_sentences_end_without_a_blank(language: str) -> None:
    assert split_sentences("今天天气很好。我们去公园吧！好吗？", language) == [
        "今天天气很好。",
        "我们去公园吧！",
        "好吗？",
    ]


def test_the_language_is_detected_and_an_unknown_one_is_split_like_english() -> None:
    german = "Der Turm und die Brücke wurden am 3. Mai gebaut. Sie stehen noch."
    assert len(split_sentences(german)) == 2
    assert split_sentences("Dr. A came. He left.", "klingon") == ["Dr. A came.", "He left."]


def test_line_breaks_tags_and_ellipses_end_a_sentence() -> None:
    assert split_sentences("One\n two.  <b> Three… Four, five… six.") == [
        "One",
        "two.",
        "<b> Three…",
        "Four, five… six.",
    ]
    assert split_sentences(" \n ") == []


def test_spans_are_places_in_the_text() -> None:
    text = "  Dr. Vale came.\n\n He left.  "
    assert [text[start:end] for start, end in sentence_spans(text)] == ["Dr. Vale came.", "He left."]


@pytest.mark.parametrize("part", ['"', "(", ".", "Nr. ", "1. ", "…", "A. b ", "\n", "「"])
def test_splitting_takes_time_in_proportion_to_the_text(part: str) -> None:
    began_s = time.process_time()
    sentence_spans(part * 60_000, "german")
    assert time.process_time() - began_s < 3


class PanicException(BaseException):
    """As PyO3 raises it for a panic of Rust code."""


@pytest.mark.parametrize("error", [PanicException, KeyboardInterrupt])
def test_a_panic_of_the_library_costs_only_its_knowledge_of_abbreviations(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
):
    def fail(*_: object) -> list[str]:
        raise error

    monkeypatch.setattr("sentencex.segment", fail)
    if error is PanicException:
        assert split_sentences("One. Two! Three", "english") == ["One.", "Two!", "Three"]
    else:
        with pytest.raises(KeyboardInterrupt):
            split_sentences("One.", "english")
