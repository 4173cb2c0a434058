"""A scene, or a whole project, as one self-contained page that plays by CSS alone.

There is no script, and the page's own policy forbids any. Texts are escaped; only validated values reach CSS.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from callsheet.state.video.layout import DEVICE_RADIUS, MOTIONS, MotionStep, Move, fill_of, note_of
from callsheet.state.video.scene import FPS, Animation, Background, Scene, SceneElement

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Content policy of the page, and of the reply that carries it. It loads nothing at all."""
_STILL: Final = "*{animation-play-state:paused!important;animation-delay:-{s}s!important}\n"
_STYLE: Final = """\
*{box-sizing:border-box;margin:0}
body{background:#0b0b0f;color:#e5e7eb;font:15px/1.5 system-ui,sans-serif;min-height:100vh;display:grid;\
align-content:center;justify-items:center;gap:20px;padding:24px}
.stage{position:relative;width:min(100%,160vh);max-width:1280px;aspect-ratio:16/9;overflow:hidden;border-radius:10px;\
container-type:inline-size;box-shadow:0 20px 60px #0009;background:#000}
.scene{position:absolute;inset:0;overflow:hidden}
.el{position:absolute;display:flex;align-items:center;white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.15}
.away{overflow:hidden;padding:1cqw;font-size:1.4cqw;color:#9ca3af;background:#1f2937;width:100%;\
height:100%}
.device{padding:1cqw;box-shadow:0 1cqw 3cqw #0006}
.screen{width:100%;height:100%;border-radius:.8cqw;overflow:hidden}
.list{width:min(100%,1280px);display:flex;flex-wrap:wrap;gap:8px 20px;padding:0;list-style:none;color:#9ca3af}
.list b{color:#f3f4f6;font-weight:600}
@media (aspect-ratio:16/9){body{display:block;padding:0}.stage{width:100%;max-width:none;border-radius:0;\
box-shadow:none}.list{display:none}}
@media (prefers-reduced-motion:reduce){.stage{aspect-ratio:auto;overflow:visible;background:none;\
box-shadow:none}\
.scene{position:relative;aspect-ratio:16/9;margin-bottom:16px;opacity:1!important;animation:none!important;\
border-radius:10px;container-type:inline-size}.el{animation:none!important}}
"""


def scene_page(scene: Scene, *, still_s: float | None = None) -> str:
    """Return the page that plays one scene, or shows it as it is after some seconds."""
    return project_page([scene], scene.name, still_s=still_s)


def project_page(scenes: Sequence[Scene], title: str = "", *, still_s: float | None = None) -> str:
    """Return the page that plays scenes one after another, and begins again at the end.

    With `still_s` it stands still as it is after so many seconds.
    """
    player = _Player(sum(scene.durationInFrames for scene in scenes))
    stages = "".join(player.scene(scene) for scene in scenes)
    listed = "".join(_line(number, scene) for number, scene in enumerate(scenes, 1))
    name = escape(title or "Video")
    held = "" if still_s is None else _STILL.replace("{s}", f"{still_s:.3f}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{name}</title>\n<style>\n{_STYLE}{''.join(player.keyframes)}{held}</style>\n</head>\n<body>\n"
        f'<main class="stage" aria-label="{name}">\n{stages}</main>\n'
        f'<ol class="list">{listed}</ol>\n</body>\n</html>\n'
    )


def _line(number: int, scene: Scene) -> str:
    seconds = round(scene.durationInFrames / FPS, 1)
    return f"<li><b>{number}</b> {escape(scene.name or f'Scene {number}')} · {seconds:g} s</li>"


class _Player:
    """Lays scenes out in time; every animation has the length of the whole and repeats with it."""

    def __init__(self, total: int) -> None:
        self._total = max(1, total)
        self._start = 0
        self._scenes = 0
        self.keyframes: list[str] = []

    def scene(self, scene: Scene) -> str:
        """Return the next scene."""
        name = f"show{self._scenes}"
        self.keyframes.append(f"@keyframes {name}{{{self._shown(scene.durationInFrames)}}}\n")
        style = f"background:{_background(scene.background)};{self._animation([(name, 'linear')])}"
        elements = "".join(self._element(element, scene) for element in scene.elements)
        self._scenes += 1
        self._start += scene.durationInFrames
        return (
            f'<section class="scene" style="{style}" aria-label="{escape(scene.name)}">{elements}</section>\n'
        )

    def _shown(self, frames: int) -> str:
        """Return the keyframes that show a scene during its part of the whole."""
        first, last = self._part(self._start), self._part(self._start + frames)
        hidden, shown = "{visibility:hidden}", "{visibility:visible}"
        before = f"0%,{max(0.0, first - 0.001):.4f}%{hidden}" if self._start else ""
        after = f"{last:.4f}%,100%{hidden}" if self._start + frames < self._total else ""
        return f"{before}{first:.4f}%,{max(first, last - 0.001):.4f}%{shown}{after}"

    def _element(self, element: SceneElement, scene: Scene) -> str:
        names: list[tuple[str, str]] = []
        for animation in element.animations:
            name = f"move{len(self.keyframes)}"
            end = min(animation.start + animation.duration, scene.durationInFrames)
            self.keyframes.append(f"@keyframes {name}{{{self._motion(element, animation, end)}}}\n")
            names.append((name, animation.easing))
        motion = [self._animation(names)] if names else []
        style = ";".join([*_look(element), *motion])
        kind = "el device" if element.kind == "device" else "el"
        return f'<div class="{kind}" style="{escape(style)}">{_content(element)}</div>'

    def _motion(self, element: SceneElement, animation: Animation, end: int) -> str:
        """Return the keyframes of an animation: its first look before it, its last one after it."""
        steps = MOTIONS[animation.kind]
        length = end - animation.start
        places = [self._part(self._start + animation.start + length * step.at) for step in steps]
        looks = [";".join(_step_look(step, element.opacity)) for step in steps]
        inner = "".join(f"{place:.4f}%{{{look}}}" for place, look in zip(places, looks, strict=True))
        return f"0%{{{looks[0]}}}{inner}100%{{{looks[-1]}}}"

    def _part(self, frame: float) -> float:
        return 100 * frame / self._total

    def _animation(self, names: Sequence[tuple[str, str]]) -> str:
        seconds = self._total / FPS
        return "animation:" + ",".join(
            f"{name} {seconds:.3f}s {easing} infinite both" for name, easing in names
        )


def _step_look(step: MotionStep, opacity: float) -> Iterator[str]:
    if step.opacity is not None:
        yield f"opacity:{step.opacity * opacity:g}"
    if step.move is not None:
        yield f"transform:{_transform(step.move)}"
    if step.hidden is not None:
        yield f"clip-path:inset(0 {100 * step.hidden:g}% 0 0)"


def _transform(move: Move) -> str:
    parts = (
        f"translateX({move.x:g}cqw)" if move.x else "",
        f"translateY({move.y:g}cqw)" if move.y else "",
        f"scale({move.scale:g})" if move.scale != 1 else "",
        f"rotate({move.rotate:g}deg)" if move.rotate else "",
    )
    return " ".join(filter(None, parts)) or "none"


def _background(background: Background) -> str:
    if background.to is None:
        return background.color
    return f"linear-gradient({background.angle:g}deg,{background.color},{background.to})"


def _look(element: SceneElement) -> Iterator[str]:
    yield f"left:{element.x:g}%;top:{element.y:g}%;width:{element.width:g}%;height:{element.height:g}%"
    yield f"opacity:{element.opacity:g}"
    # Sizes are pixels of a frame that is 1920 wide; 1cqw is a hundredth of the stage.
    yield f"border-radius:{_radius(element)}"
    if element.kind == "text":
        yield f"color:{element.color};font-size:{element.size / 19.2:.3f}cqw;font-weight:{element.weight}"
        yield f"font-family:'{element.font}',system-ui,sans-serif;text-align:{element.align}"
        yield f"justify-content:{_JUSTIFY[element.align]}"
    if fill := fill_of(element):
        yield f"background:{fill}"


_JUSTIFY: Final = {"left": "flex-start", "center": "center", "right": "flex-end"}


def _radius(element: SceneElement) -> str:
    if element.kind == "shape" and element.shape == "circle":
        return "50%"
    if element.kind == "device":
        return f"{DEVICE_RADIUS:g}cqw"
    return f"{element.radius / 19.2:.3f}cqw"


def _content(element: SceneElement) -> str:
    # Each image of a scene lies elsewhere, and loading it would tell that server what the address holds.
    note = note_of(element)
    image = f'<span class="away">{escape(note)}</span>' if note else ""
    if element.kind == "device":
        return f'<div class="screen" style="background:{element.background or "#ffffff"}">{image}</div>'
    if element.kind == "image":
        return image
    return f"<span>{escape(element.text)}</span>" if element.text else ""
