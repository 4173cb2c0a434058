"""How a student learns best and how hard the words get, from what is said of it (B64)."""

import pytest

from callsheet.state.lessons.learning import (
    level_shift,
    named_style,
    shifted_level,
    split_interests,
    style,
    visual_guidance,
    without_styles,
)
from tests.lesson_double import LessonDouble
from tests.lesson_material import material


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("learns best with pictures", "visual"),
        ("She is a visual learner", "visual"),
        ("understands things by doing", "hands-on"),
        ("learns by building models", "hands-on"),
        ("remembers from listening", "auditory"),
        ("learns through reading", "reading"),
        ("aprende mejor con imágenes", "visual"),
        ("entiende mejor haciendo las cosas", "hands-on"),
        ("aprende escuchando cuentos", "auditory"),
        ("aprende leyendo", "reading"),
        ("sie lernt am besten mit Bildern", "visual"),
        ("er versteht es durch Ausprobieren", "hands-on"),
        ("lernt am besten durch Zuhören", "auditory"),
        ("sie lernt beim Lesen", "reading"),
        ("elle apprend mieux avec des images", "visual"),
        ("il comprend en manipulant", "hands-on"),
        ("apprend en écoutant", "auditory"),
        ("il retient mieux en lisant", "reading"),
        ("看图学得最好", "visual"),
        ("动手学得最快", "hands-on"),
        ("听故事记得最牢", "auditory"),
        ("通过阅读学习", "reading"),
        ("watching soccer with pictures of stars", None),
        ("le gusta el fútbol y las fotos", None),
        ("mag Bilder von Pferden", None),
        ("喜欢听音乐", None),
        ("soccer", None),
        ("", None),
        (None, None),
    ],
)
def test_a_way_of_learning_is_heard_where_it_is_said(said, found):
    assert style(said) == found
    assert bool(visual_guidance(style(said))) == (found is not None)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("with pictures", "visual"),
        ("by doing", "hands-on"),
        ("听", "auditory"),
        ("quickly", None),
        (None, None),
    ],
)
def test_a_way_of_learning_that_is_known_to_be_one_needs_no_verb(said, found):
    assert named_style(said) == found


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("english", "large, clear pictures"),
        ("spanish", "imágenes"),
        ("german", "Bildern"),
        ("french", "images"),
        ("chinese", "图片"),
        ("thai", "large, clear pictures"),
    ],
)
def test_what_is_shown_is_said_in_the_lessons_language(language, words):
    assert words in visual_guidance("visual", language)


@pytest.mark.parametrize(
    ("said", "likes", "learns"),
    [
        ("soccer and chess", "soccer and chess", None),
        ("soccer, chess and learns best with pictures", "soccer, chess", "learns best with pictures"),
        ("learns by doing", None, "learns by doing"),
        (None, None, None),
    ],
)
def test_interests_and_ways_of_learning_are_parted(said, likes, learns):
    """B2, B64."""
    assert split_interests(said) == (likes, learns)


def test_what_says_how_one_learns_is_no_interest():
    assert without_styles(["soccer", "learns best with pictures", "chess"]) == ["soccer", "chess"]


@pytest.mark.parametrize(
    ("guidance", "moved"),
    [
        ("That was too hard for her", -1),
        ("easier words, please", -1),
        ("this is too simple", 1),
        ("more challenging", 1),
        ("shorter", 0),
        (None, 0),
    ],
)
def test_words_become_easier_or_harder_where_that_is_wanted(guidance, moved):
    assert level_shift(guidance) == moved


def test_words_stay_within_what_schools_have():
    assert (shifted_level(2.5, -5), shifted_level(8.5, 9), shifted_level(4.5, -1)) == (1.0, 12.0, 3.5)


async def test_a_narration_adapts_and_stays_so(opened):
    """B64: after "too hard" the next ones are easier too; several interests, and a way of learning."""
    school = LessonDouble(opened)
    found = await school.use("extractFactsTool", content=material("photosynthesis").text)
    await school.put("confirmed", {"facts": found["facts"][:2]})
    likes = "soccer, chess and learns best with pictures"
    await school.use("saveStudentInfoTool", child_age="10", child_interest=likes)
    first = (await school.use("generateNarrationTool"))["narration"]
    assert first["reading_level"] == "4.5"
    assert all("pictures and diagrams" in one["visual_guidance"] for one in first["segments"])
    assert "learns best" not in " ".join(one["narration"] for one in first["segments"])
    easier = (await school.use("generateNarrationTool", guidance="that was too hard"))["narration"]
    assert easier["reading_level"] == "3.5"
    later = (await school.use("generateNarrationTool", target_duration=90))["narration"]
    assert later["reading_level"] == "3.5"
    harder = (await school.use("generateNarrationTool", guidance="too easy now"))["narration"]
    assert harder["reading_level"] == "4.5"
