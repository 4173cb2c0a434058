"""Scenes: validation, patches and their descriptions, styles and previews (D22, D32, D51)."""

import re
from html.parser import HTMLParser

import pytest
from pydantic import ValidationError

from callsheet.state.errors import Invalid
from callsheet.state.video.patch import ScenePatch, apply_patch, differences
from callsheet.state.video.preview import POLICY, project_page, scene_page
from callsheet.state.video.scene import Audio, Scene, starters
from callsheet.state.video.style import examples, extract_style, matching_examples, trends
from evals.scene_style import style_match

TITLE = {
    "id": "title",
    "kind": "text",
    "text": "Hello",
    "animations": [{"kind": "fade", "start": 6, "duration": 12}],
}
BOX = {"id": "box", "kind": "shape", "color": "red", "background": "#0f0"}
SCENE = Scene.model_validate(
    {"name": "One", "elements": [TITLE, BOX], "palette": ["NAVY", "#FFF"], "fonts": ["Inter"]}
)


def apply_changes(**patch: object) -> Scene:
    return apply_patch(SCENE, ScenePatch.model_validate(patch))


def test_colours_are_normalised():
    assert SCENE.palette == ("#000080", "#ffffff")
    assert (SCENE.elements[1].color, SCENE.elements[1].background) == ("#ff0000", "#00ff00")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"background": {"color": "reddish"}}, "is no colour"),
        ({"background": {"color": "red;x:url(//e)"}}, "is no colour"),
        ({"palette": [7]}, "valid string"),
        ({"elements": [TITLE, TITLE]}, "two elements have the id 'title'"),
        ({"elements": [{**TITLE, "animations": [{"kind": "fade", "start": 90}]}]}, "starts at frame 90"),
        ({"elements": [{**TITLE, "font": "Inter'; x"}]}, "pattern"),
        ({"elements": [{"id": "i", "kind": "image", "src": "http://x"}]}, "https address"),
        ({"elements": [{"id": "i", "kind": "image", "src": 'https://x/"onload'}]}, "no spaces, quotes"),
        ({"durationInFrames": 3}, "greater than or equal to 15"),
        ({"unknown": 1}, "Extra inputs"),
    ],
)
def test_an_invalid_scene_is_refused(fields: dict[str, object], words: str):
    with pytest.raises(ValidationError, match=re.escape(words)):
        Scene.model_validate({"name": "x", **fields})


def test_a_patch_changes_the_fields_that_it_names_and_differences_describe_them():
    after = apply_changes(
        name="Two",
        speed=1.5,
        background="teal",
        background_to="black",
        recolor=[{"old": "red", "new": "gold"}, {"old": "navy", "new": "pink"}],
        change=[{"id": "title", "text": "Hi", "size": 120}],
        add=[{"kind": "shape", "shape": "circle", "x": 5}, {"id": "extra", "text": "More"}],
        animations=[{"element": "extra", "kind": "slide-up"}, {"element": "extra", "kind": "pulse"}],
        palette=["pink"],
        fonts=[],
        pace="fast",
    )
    assert after.durationInFrames == 60
    assert after.elements[0].animations[0].model_dump() == {
        "kind": "fade",
        "start": 4,
        "duration": 8,
        "easing": "ease-out",
    }
    assert [one.id for one in after.elements] == ["title", "box", "shape-1", "extra"]
    assert [each.kind for each in after.elements[3].animations] == ["slide-up", "pulse"]
    lines = differences(SCENE, after)
    assert lines[:6] == [
        "name is now 'Two'",
        "3 s → 2 s",
        "background is now #008080 to #000000",
        "palette: #ffc0cb",
        "fonts: none",
        "pace is now fast",
    ]
    assert "text 'Hello' text: Hello → Hi" in lines
    assert "shape 'box' color: #ff0000 → #ffd700" in lines
    assert "text 'Hello' moves: fade 0.26666666666666666 s from 0.13333333333333333 s" not in lines
    assert differences(SCENE, SCENE) == []


def test_a_patch_removes_elements_and_animations():
    after = apply_changes(remove=["box"], animations=[{"element": "all"}], seconds=4, background_to="white")
    assert [one.id for one in after.elements] == ["title"]
    assert after.elements[0].animations == ()
    assert (after.durationInFrames, after.background.to) == (120, "#ffffff")
    assert "shape 'box' is gone" in differences(SCENE, after)
    assert "text 'Hello' moves: not at all" in differences(SCENE, after)
    audio = SCENE.model_copy(update={"audio": Audio(description="soft piano")})
    assert differences(SCENE, audio) == ["audio: soft piano"]
    assert differences(audio, SCENE) == ["the audio is gone"]


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"change": [{"id": "none", "text": "x"}]}, "has no element 'none'"),
        ({"remove": ["gone"]}, "its elements are: box, title"),
        ({"add": [{"id": "title"}]}, "two elements have the id 'title'"),
    ],
)
def test_a_patch_of_an_unknown_element_is_refused_with_its_id(patch: dict[str, object], words: str):
    with pytest.raises(Invalid) as refused:
        apply_changes(**patch)
    assert words in f"{refused.value.message} {refused.value.remedy}"


@pytest.mark.parametrize("speed", [0, 0.01, 50])
def test_a_speed_outside_the_limits_is_refused(speed: float):
    with pytest.raises(ValidationError, match="factor"):
        ScenePatch(speed=speed)


def test_a_patch_that_names_its_changes_makes_no_other():
    """Small models fill in every field of a form, some of them with values that do not fit."""
    filled = {"changes": ["speed"], "speed": 2, "seconds": 45, "background": "ecfeff", "note": "Faster."}
    patch = ScenePatch.model_validate(filled)
    assert (patch.speed, patch.seconds, patch.background, patch.note) == (2, None, None, "Faster.")
    assert ScenePatch.model_validate({"changes": ["style"], "pace": "fast", "speed": 2}).pace == "fast"
    assert ScenePatch.model_validate({"changes": [], "seconds": 9}).seconds == 9
    with pytest.raises(ValidationError, match="sped"):
        ScenePatch.model_validate({"changes": ["speed"], "speed": 2, "sped": 2})


def test_a_style_has_visible_colours_fonts_pace_and_motion():
    """D22: colours by the area that they cover."""
    style = extract_style(SCENE)
    color, share = style.palette[0]
    assert color == "#0f172a"
    assert share == pytest.approx(0.717, abs=0.03)
    assert (style.fonts, style.motions, style.easings) == (("Inter",), ("fade",), ("ease-out",))
    assert (style.seconds, style.motion_seconds) == (3.0, 0.4)
    plain = extract_style(Scene(name="x", background={"color": "#111111", "to": "#eeeeee"}))
    assert (len(plain.palette), plain.motion_seconds) == (2, 0.0)
    picture = Scene.model_validate(
        {"elements": [{"id": "i", "kind": "image", "src": "https://x.example/a.png"}]}
    )
    assert extract_style(picture).palette == (("#0f172a", 1.0),)


def test_scenes_of_one_project_match_better_than_scenes_of_another():
    """D51."""
    launch, _, event = starters().values()
    assert style_match(launch[0], launch[0]) == 1.0
    assert style_match(launch[0], launch[4]) > 0.8
    assert style_match(launch[0], event[0]) < 0.6


def test_examples_are_searched_by_their_tags():
    assert len(examples()) >= 20
    assert matching_examples("A BAKERY in town", 3)[0]["name"] == "Market morning"
    assert matching_examples("qwertz", 3) == []
    [trend] = trends(["music event", "qwertz"])
    assert trend["examples"] >= 2
    assert trend["fonts"]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


HOSTILE = (
    "</style></title><script>alert(1)</script>\"' onload=alert(1) }body{display:none} "
    "<img src=x onerror=alert(1)>"
)


def test_a_preview_has_every_scene_and_escapes_hostile_text():
    scene = Scene.model_validate(
        {
            "name": HOSTILE,
            "elements": [
                {**TITLE, "text": HOSTILE},
                {"id": "i", "kind": "image", "src": "https://x.example/a.png?b=1&c=2"},
                {"id": "d", "kind": "device", "device": "phone", "src": "https://x.example/b.png"},
                {"id": "c", "kind": "shape", "shape": "circle", "animations": [{"kind": "bounce"}]},
                {"id": "e", "kind": "text", "text": ""},
            ],
        }
    )
    html = project_page([scene, SCENE], HOSTILE)
    tags = _Tags()
    tags.feed(html)
    known = "html head meta title style body main section div span ol li b"
    assert {tag for tag, _ in tags.elements} == {*known.split()}
    assert all(not name.startswith("on") for _, attributes in tags.elements for name in attributes)
    assert [attributes.get("content") for tag, attributes in tags.elements if tag == "meta"][1] == POLICY
    style = html[html.index("<style>") : html.index("</style>")]
    assert "alert" not in style
    assert style.count("@keyframes show") == 2
    assert html.count('class="scene"') == 2


def test_a_preview_can_be_paused_at_a_time():
    assert "animation-play-state:paused" in scene_page(SCENE, still_s=1.5)
    assert "animation-delay:-1.500s" in scene_page(SCENE, still_s=1.5)
    assert "paused" not in scene_page(Scene())


def test_every_starter_is_a_complete_project():
    for name, scenes in starters().items():
        assert 4 <= len(scenes) <= 6, name
        assert all(scene.palette and scene.fonts and scene.elements for scene in scenes)
