"""What a narrator says around the facts, in the grammar of the language."""

import pytest

from providers.offline.fact_narration.phrases import phrases


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
