"""The student of a lesson: age, reading level and interests (B2, B15, B-R7, B-R11, B64)."""

import pytest

from callsheet.state.lessons.student import Student, age, interests, level


@pytest.mark.parametrize(
    ("text", "years"),
    [
        ("7", 7),
        ("10", 10),
        ("12 years old", 12),
        ("seven", 7),
        ("She is Twelve", 12),
        ("twenty-one", 21),
        ("thirty", 30),
        ("about 8 or 9", 8),
        ("grade 3", 8),
        ("5th grade", 10),
        ("a third-grade class", 8),
        ("fifteen", 15),
        ("ninety five", 95),
        ("", None),
        (None, None),
        ("a little one's brother", 1),
        ("teenager", None),
        ("1994", None),
        ("七岁", 7),
        ("十岁", 10),
        ("十二岁", 12),
        ("二十一岁", 21),
        ("8岁", 8),
        ("岁", None),
        ("someone", None),
    ],
)
def test_an_age_is_read_from_the_spellings_people_use(text, years):
    assert age(text) == years


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("4", 2.5), ("5", 2.5), ("6", 3.5), ("8", 3.5), ("9", 4.5), ("11", 4.5),
        ("12", 6.5), ("14", 6.5), ("15", 8.5), ("40", 8.5), ("six", 3.5), (None, 6.5),
    ],
)  # fmt: skip
def test_a_reading_level_follows_from_the_age(text, grade):
    """B15, B-R7: six is 3.5 and twelve is 6.5."""
    assert level(text) == (grade, [])


def test_an_unclear_age_gives_the_middle_level_with_a_warning():
    grade, warnings = level("quite young")
    assert grade == 6.5
    assert "quite young" in warnings[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("soccer", ["soccer"]),
        ("soccer and Minecraft", ["soccer", "Minecraft"]),
        ("soccer, Minecraft & soccer.", ["Soccer".lower(), "Minecraft"]),
        ("Fußball und Lego", ["Fußball", "Lego"]),
        ("足球和恐龙", ["足球", "恐龙"]),
        ("sandcastles", ["sandcastles"]),
        (None, []),
        (" , ", []),
    ],
)
def test_several_interests_in_one_text_are_separated(text, expected):
    """B64."""
    assert interests(text) == expected


def test_a_new_field_of_a_student_keeps_the_other_fields():
    """B-R11."""
    student = Student(child_age="7", child_interest="soccer")
    assert student.with_news(None, "Lego") == Student(child_age="7", child_interest="Lego")
    assert student.with_news("8", None) == Student(child_age="8", child_interest="soccer")
