"""What a narrator says around the facts, in the grammar of the language."""

import re

import pytest

from providers.offline.fact_narration.phrases import phrases
from state.narration import PURPOSES

KINDS = tuple(PURPOSES)


@pytest.mark.parametrize(
    ("language", "interests", "words", "never"),
    [
        ("spanish", "el fútbol", "fans del fútbol", "de el"),
        ("spanish", "la música", "fans de la música", "del la"),
        ("french", "les dinosaures", "fans des dinosaures", "de les"),
        ("french", "le foot", "fans du foot", "de le "),
        ("french", "la danse", "fans de la danse", "du la"),
    ],
)
def test_an_article_joins_the_word_before_it(language: str, interests: str, words: str, never: str) -> None:
    told = " ".join(phrases(language).ways("interest_hook", interests=interests))
    assert words in told
    assert never not in told
    closing = phrases(language).ways("interest_closing", interests=interests)[0]
    assert never not in closing


def test_a_language_without_articles_that_join_is_left_alone() -> None:
    assert "fans of el" not in phrases("english").ways("interest_hook", interests="le Mans")[0]
    assert "le Mans" in phrases("english").ways("interest_hook", interests="le Mans")[0]


@pytest.mark.parametrize("language", ["english", "spanish", "french", "german", "chinese", "thai"])
def test_a_bare_name_is_in_no_sentence_that_needs_an_article(language: str) -> None:
    """B12, B17: it stands after a colon or alone, since nothing tells which article it has."""
    said = phrases(language)
    shown = [said.seen(kind, ["Heart"], []) for kind in KINDS]
    for text in [*said.wonder("Heart"), *said.ways("recap", concepts="Heart"), *shown]:
        before, _, after = text.partition("Heart")
        lead = re.split(r"[.?!？]", before)[-1]
        assert not lead.strip("¡ ") or lead.rstrip().endswith((":", "："))
        assert after[:1] in {"", ".", "!", " ", "。", "！"}, text
