"""Previews in a browser: before and after "make all scenes faster and use scene 3's colours"."""

import struct
import subprocess
import zlib
from collections import Counter
from pathlib import Path

import pytest

from callsheet.providers.offline.video import edit_form
from callsheet.state.video.patch import ScenePatch, apply_patch
from callsheet.state.video.preview import project_page, scene_page
from callsheet.state.video.scene import Scene, starters
from tests.doubles.needs import need

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
WIDTH, HEIGHT = 640, 440


def screenshot(folder: Path, html: str) -> list[list[tuple[int, int, int]]]:
    """Return the pixels of a page in a browser, row by row."""
    browser = need("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    page, shot = folder / "page.html", folder / "shot.png"
    page.write_text(html, encoding="utf-8")
    flags = ["--no-sandbox", "--headless", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}"]
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [str(browser), *flags, profile, f"--screenshot={shot}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return pixels(shot.read_bytes())


def pixels(png: bytes) -> list[list[tuple[int, int, int]]]:
    """Decode a PNG of eight bits a channel (ISO/IEC 15948)."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, kind) in {(8, 2), (8, 6)}, "RGB or RGBA"
    size, data, at = 3 if kind == 2 else 4, b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    raw, before, rows = zlib.decompress(data), bytearray(width * size), []
    for row in range(height):
        start = row * (width * size + 1)
        before = undo_filter(raw[start], bytearray(raw[start + 1 : start + 1 + width * size]), before, size)
        rows.append([(before[x], before[x + 1], before[x + 2]) for x in range(0, width * size, size)])
    return rows


def undo_filter(kind: int, line: bytearray, above: bytearray, size: int) -> bytearray:
    for x in range(len(line)):
        left, up = line[x - size] if x >= size else 0, above[x]
        corner = above[x - size] if x >= size else 0
        if kind == 4:
            guess = left + up - corner
            near = min(
                (abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner)
            )
            line[x] = (line[x] + near[2]) % 256
        else:
            line[x] = (line[x] + (0, left, up, (left + up) // 2)[kind]) % 256
    return line


def main_color(rows: list[list[tuple[int, int, int]]]) -> str:
    """The most frequent colour of the stage, which is the upper part of the page."""
    count = Counter(color for row in rows[60:300:3] for color in row[60:580:3])
    return "#{:02x}{:02x}{:02x}".format(*count.most_common(1)[0][0])


def share_of(rows: list[list[tuple[int, int, int]]], color: str) -> float:
    target = tuple(int(color[at : at + 2], 16) for at in (1, 3, 5))
    pixels_of_stage = [one for row in rows[60:300:3] for one in row[60:580:3]]
    return sum(
        max(abs(a - b) for a, b in zip(one, target, strict=True)) < 24 for one in pixels_of_stage
    ) / len(pixels_of_stage)


def edit_scene(scene: Scene, request: str, **more: object) -> Scene:
    form = edit_form({"request": request, "scene": scene.data(), **more})
    return apply_patch(scene, ScenePatch.model_validate(form))


def test_a_screenshot_shows_the_new_colours(tmp_path: Path):
    """Scene 1 takes scene 3's colours, keeps its texts, and is faster."""
    scenes = starters()["app-promo"]
    example = {"scene-3": scenes[2].data()}
    changed = edit_scene(edit_scene(scenes[0], "the colors of scene-3", examples=example), "faster")
    end_s = scenes[0].durationInFrames / 30 - 0.05
    before = screenshot(tmp_path, scene_page(scenes[0], still_s=end_s))
    after = screenshot(tmp_path, scene_page(changed, still_s=end_s / 1.5))
    third = screenshot(tmp_path, scene_page(scenes[2], still_s=2.5))
    assert main_color(before) == scenes[0].background.color
    assert main_color(after) == main_color(third) == scenes[2].background.color
    assert share_of(before, "#14213d") > 0.02, "the words are in ink"
    assert share_of(after, "#14213d") < 0.005
    assert share_of(after, "#34d399") > 0.02, "and now in scene 3's green"


def test_a_faster_scene_has_progressed_further_at_the_same_time(tmp_path: Path):
    scene = starters()["app-promo"][2]
    slow = screenshot(tmp_path, scene_page(scene, still_s=0.5))
    fast = screenshot(tmp_path, scene_page(edit_scene(scene, "faster"), still_s=0.5))
    assert share_of(fast, "#34d399") > share_of(slow, "#34d399")


def test_the_preview_of_a_project_shows_the_scene_at_its_time(tmp_path: Path):
    scenes = starters()["event-invitation"]
    frame = scenes[0].elements[0].color
    second, last = (scenes[number].background.color for number in (1, 3))
    for moment_s, color in ((3.0, frame), (6.0, second), (12.0, last)):
        rows = screenshot(tmp_path, project_page(scenes, still_s=moment_s))
        assert share_of(rows, color) > 0.2, moment_s
