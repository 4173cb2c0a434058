"""How long a narration shall be, out of what people say."""

import pytest

from callsheet.state.lessons.lengths import lasting, seconds


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
def test_a_length_is_heard_in_seconds(text: str, wanted: float) -> None:
    assert seconds(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Make it 90 seconds.", 90),
        ("The narration should be two minutes long", 120),
        ("I want a 45-second lesson", 45),
        ("Hazlo de 90 segundos", 90),
        ("mach es etwa 90 Sekunden lang", 90),
        ("fais-le de 90 secondes", 90),
        ("Bake it for 40 minutes.", 0),
        ("Keep it at room temperature for 30 minutes.", 0),
        ("Light takes 8 minutes from the sun.", 0),
        ("Make it 90 seconds. " + "Leaves are green. " * 20, 0),
    ],
)
def test_a_length_that_a_material_speaks_of_is_none_of_the_narrations(text: str, wanted: float) -> None:
    assert seconds(lasting(text)) == wanted
