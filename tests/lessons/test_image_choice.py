"""A person's answer to the question which images a lesson shows (B62)."""

import json
from typing import Any

import pytest

from callsheet.state.errors import Invalid
from callsheet.state.lessons.images import (
    ChosenImages,
    NotAnImageChoice,
    OtherImages,
    Picture,
    on_the_web,
    picture_id,
    read_choice,
)

NAMES = ("A leaf", "A root", "A tree", "Two leaves")
PICTURES = [
    Picture(id=picture_id(name), title=name, url=f"https://e.org/{number}.png", credit="e.org")
    for number, name in enumerate(NAMES)
]
IDS = [picture.id for picture in PICTURES]


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        ("all", [1, 2, 3, 4]),
        ("OK!", [1, 2, 3, 4]),
        (True, [1, 2, 3, 4]),
        ("none", []),
        (False, []),
        ([{"type": "ignore", "args": None}], []),
        ({"images": []}, []),
        ([], []),
        ("1 and 3", [1, 3]),
        ("#2", [2]),
        (3, [3]),
        (["2", IDS[0]], [2, 1]),
        ([IDS[1], IDS[1]], [2]),
        (IDS[2], [3]),
        (json.dumps({"images": IDS[:2]}), [1, 2]),
        ({"images": [{"id": IDS[0], "selected": False}, {"id": IDS[3]}]}, [4]),
        ({"selectedImages": "1, 2"}, [1, 2]),
    ],
)
def test_an_answer_chooses_images(answer: Any, numbers: list[int]) -> None:
    """B62: choosing none is an answer, too."""
    assert read_choice(answer, PICTURES) == ChosenImages(tuple(PICTURES[number - 1] for number in numbers))


@pytest.mark.parametrize(
    "text",
    ["What do you think?", "the tree picture", "not the root", "[not json", "the " + "very " * 500 + "first"],
)
def test_text_that_chooses_no_images_goes_to_the_model(text: str) -> None:
    assert read_choice(text, PICTURES) == NotAnImageChoice(text)


def test_a_rejection_with_words_asks_for_other_images() -> None:
    assert read_choice({"decisions": [{"type": "reject", "message": "roots"}]}, PICTURES) == OtherImages(
        "roots"
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("", "empty"),
        ("9", "no image 9"),
        ([5], "no image 5"),
        (["image-nope"], "image-nope"),
        ([1, "image-nope"], "no image 'image-nope'"),
        ([None], "None"),
        ({"images": 1.5}, "1.5"),
        ({}, "chooses no images"),
        ({"images": [1], "message": "make it longer"}, "takes no comment"),
    ],
)
def test_an_answer_that_names_an_unknown_image_or_none_is_refused_with_a_remedy(
    answer: Any, words: str
) -> None:
    with pytest.raises(Invalid, match=words) as error:
        read_choice(answer, PICTURES)
    assert error.value.remedy


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://e.org/a.png", True),
        ("http://e.org", True),
        ("data:image/png;base64,AA", False),
        ("https://", False),
        ("https://[e.org/", False),
        ("leaf.png", False),
    ],
)
def test_only_http_urls_with_a_host_are_on_the_web(url: str, *, expected: bool) -> None:
    assert on_the_web(url) is expected
