"""A film and a preview are made of the same numbers."""

from typing import get_args

import pytest

from callsheet.state.video.film import film
from callsheet.state.video.layout import MOTIONS
from callsheet.state.video.preview import project_page
from callsheet.state.video.scene import Animation, Background, Motion, Scene, SceneElement

SCENE = Scene(
    durationInFrames=60,
    background=Background(color="#102030", to="#405060", angle=90),
    elements=(
        SceneElement(
            id="title",
            kind="text",
            text="Hello",
            x=10,
            width=50,
            height=20,
            opacity=0.5,
            animations=tuple(Animation(kind=kind, start=10, duration=90) for kind in ("slide-left", "pulse")),
        ),
        SceneElement(id="sun", kind="shape", shape="circle", color="#ffcc00", radius=8),
        SceneElement(id="phone", kind="device", src="https://example.org/screen.png"),
        SceneElement(id="logo", kind="image", src="https://example.org/logo.png", background="#111111"),
    ),
)


def test_a_film_has_places_in_pixels_and_movements_in_frames() -> None:
    data = film([SCENE, SCENE], "Film")
    assert (data["width"], data["height"], data["framesPerSecond"], data["frames"]) == (1920, 1080, 30, 120)
    scene = data["scenes"][0]
    assert (scene["color"], scene["to"], scene["angle"]) == ("#102030", "#405060", 90)
    title, sun, phone, logo = scene["parts"]
    assert (title["x"], title["width"], title["height"]) == (192, 960, 216)
    assert (title["text"], title["fill"], title["opacity"]) == ("Hello", None, 0.5)
    slide, pulse = title["motions"]
    assert (slide["start"], slide["end"], slide["easing"]) == (10, 60, "ease-out")
    first = slide["steps"][0]
    assert (first["at"], first["opacity"], first["hidden"]) == (0, 0, None)
    assert first["move"] == pytest.approx([230.4, 0, 1, 0])
    assert pulse["steps"][1]["opacity"] is None
    assert (sun["round"], sun["fill"], sun["radius"]) == (True, "#ffcc00", 8)
    assert (phone["screen"], phone["note"]) == ("#ffffff", "Not loaded: https://example.org/screen.png")
    assert (logo["fill"], logo["note"]) == ("#111111", "Not loaded: https://example.org/logo.png")


def test_every_movement_has_its_styles_in_the_preview() -> None:
    assert MOTIONS.keys() == {*get_args(Motion)}
    parts = [
        SceneElement(id=f"e-{kind}", kind="text", text=kind, animations=(Animation(kind=kind),))
        for kind in get_args(Motion)
    ]
    flat = Scene(elements=tuple(parts), background=Background(color="#123456"))
    page = project_page([flat, SCENE])
    assert "linear-gradient(90deg,#102030,#405060)" in page
    for style in (
        "opacity:0;transform:translateX(12cqw)",
        "opacity:1;transform:none",
        "translateY(-10cqw)",
        "transform:scale(1.08)",
        "rotate(-90deg)",
        "clip-path:inset(0 100% 0 0)",
    ):
        assert style in page
