"""The requested length of a narration, parsed from text."""

import pytest

from callsheet.state.lessons.lengths import seconds


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("90 seconds", 90),
        ("make it 45-second", 45),
        ("two minutes, please", 120),
        ("a minute", 60),
        ("1.5 min", 90),
        ("1,5 minutos", 90),
        ("de 90 segundos", 90),
        ("30 Sekunden", 30),
        ("90秒", 90),
        ("2分钟", 120),
        ("make it shorter", 0),
        ("My student is 10", 0),
    ],
)
def test_a_length_in_a_text_is_returned_in_seconds(text: str, wanted: float) -> None:
    assert seconds(text) == wanted
