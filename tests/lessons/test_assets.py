"""Assets and images of a lesson, as its versions hold them (B40)."""

from typing import Any

import pytest
from pydantic import ValidationError

from callsheet.state.lessons import lesson
from callsheet.state.lessons.images import Picture, asset_of_picture, asset_removal, live_assets
from callsheet.state.versions import Version

LEAF = Picture(
    id="image-1", title="A leaf", url="https://e.org/leaf.png", page="https://e.org/", credit="e.org"
)


def asset_version(data: dict[str, Any], number: int) -> Version:
    return Version(f"v{number}", "assets", data, number, "local", None, "by-hand")


def test_a_removed_asset_is_not_live() -> None:
    removed, remaining = asset_of_picture(LEAF, "a"), asset_of_picture(LEAF, "b")
    versions = [
        asset_version(data, number) for number, data in enumerate((removed, remaining, asset_removal("a")), 1)
    ]
    assert [version.data["id"] for version in live_assets(versions)] == ["b"]


@pytest.mark.parametrize(
    ("stream", "data", "line"),
    [
        ("assets", asset_of_picture(LEAF, "a"), "image A leaf"),
        (
            "assets",
            {"id": "b", "assetType": "audio", "url": "https://e.org/1.mp3"},
            "audio https://e.org/1.mp3",
        ),
        ("assets", {"id": "c", "assetType": "video", "url": None, "metadata": None}, "video c"),
        ("assets", asset_removal("a"), "without a"),
        (
            "quiz",
            {"topic": "Leaves", "language": "english", "madeBy": "code", "questions": []},
            "quiz about Leaves",
        ),
        ("images", {"words": "leaves", "images": [LEAF.model_dump()]}, "A leaf"),
        ("images", {"words": "leaves", "images": []}, "none"),
    ],
)
def test_a_version_is_valid_and_has_a_one_line_summary(stream: str, data: dict[str, Any], line: str) -> None:
    lesson.check_version(stream, data)
    assert lesson.summary(stream, data) == line


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        ("assets", {}),
        ("assets", {"id": "a", "gone": "b"}),
        ("assets", {"id": "a", "url": "javascript:alert(1)"}),
        ("assets", {"id": "a", "assetType": "program"}),
        ("images", {"words": "leaves"}),
    ],
)
def test_an_invalid_version_is_refused(stream: str, data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        lesson.check_version(stream, data)
