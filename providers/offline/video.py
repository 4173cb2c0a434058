"""The offline model on videos: plans of a few forms, and the scenes and changes that their steps ask for."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any, Final

from callsheet.providers.offline.conversation import OfflineConversation, OfflineReply, PlannedCall
from callsheet.providers.offline.grammar import SLOTS, Form, FormMatch, Unclear, decline, match
from callsheet.providers.offline.grammar import number as value_of
from callsheet.state.figures import ORDINALS
from callsheet.state.pages.styles import NAMES
from callsheet.state.plan_progress import outcome_sentence

_COLOR: Final = re.compile(rf"#[0-9a-f]{{6}}|{'|'.join(NAMES)}")
_TOPIC: Final = re.compile(f"{SLOTS['subject']}|{SLOTS['quote']}", re.IGNORECASE)
_PARTS: Final = ("Opening", "What it is", "Why it is good", "Where to find it")
_REPLACE: Final = re.compile(r'replace "([^"]*)" with "([^"]*)"')
_THEMES: Final = (
    ("#0f172a", "#1e3a8a", "#f8fafc", "#38bdf8"),
    ("#3b0764", "#86198f", "#fdf4ff", "#f0abfc"),
    ("#052e16", "#166534", "#f0fdf4", "#86efac"),
)
_COLORS: Final = ("color", "background", "to")
_UNKNOWN_STEP: Final = (
    "I am the offline demo model, and know for a scene “faster”, “slower”, “shorter”, “longer”, a colour, "
    '“replace "a" with "b"”, and a topic of docs/offline.md for a new one, but not “{}”'
)


def edit_form(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the `ScenePatch` for a request such as a plan of the offline model makes, or None."""
    request, scene = str(given.get("request", "")).strip(), given.get("scene") or {}
    if request in {"faster", "shorter"}:
        return {"speed": 1.5, "pace": "fast", "note": request}
    if request in {"slower", "longer"}:
        return {"speed": 0.667, "pace": "slow", "note": request}
    if words := _REPLACE.fullmatch(request):
        return {"change": _text_changes(scene, *words.groups())}
    examples = [*(given.get("examples") or {}).values()]
    if examples and (form := re.fullmatch(r"(like|the colors of) scene-\d+", request)):
        return _like(scene, examples[0], everything=form[1] == "like")
    note = f"the background is {request}"
    return {"background": request, "note": note} if _COLOR.fullmatch(request) else None


def new_scene(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a plain `Scene` with the request's words, or None if they are no topic."""
    part, _, text = str(given.get("request", "")).strip().rpartition(": ")
    if part not in {"", *_PARTS} or not _TOPIC.fullmatch(text):
        return None
    dark, deep, light, accent = _THEMES[sum(part.encode()) % len(_THEMES)]
    rise = [{"kind": "slide-up", "start": 6, "duration": 18, "easing": "ease-out"}]
    text, look = text.strip("“”"), {"size": 96, "color": light, "y": 36}
    title = {"id": "title", "kind": "text", "text": text[:1].upper() + text[1:], **look}
    line = {"id": "line", "kind": "shape", "x": 44, "y": 62, "width": 12, "height": 1, "color": accent}
    return {
        "name": part or text[:40],
        "durationInFrames": round(float(given.get("seconds") or 3) * 30),
        "background": {"color": dark, "to": deep},
        "elements": [{**title, "animations": rise}, {**line, "animations": [{"kind": "fade", "start": 18}]}],
        "palette": [dark, deep, light, accent],
        "fonts": ["Inter"],
    }


def _text_changes(scene: Mapping[str, Any], old: str, new: str) -> list[dict[str, Any]]:
    return [
        {"id": element["id"], "text": element["text"].replace(old, new)}
        for element in scene.get("elements", ())
        if old in element.get("text", "")
    ]


def _like(scene: Mapping[str, Any], example: Mapping[str, Any], *, everything: bool) -> dict[str, Any]:
    """Return the change that gives a scene the colours of another; with `everything` its pace, too."""
    background = example["background"]
    old, new = _colors(scene), _colors(example)
    pairs = (
        [{"old": one, "new": new[min(index, len(new) - 1)]} for index, one in enumerate(old)] if new else []
    )
    change: dict[str, Any] = {
        "background": background["color"],
        "background_to": background.get("to"),
        "palette": example.get("palette") or None,
        "recolor": pairs,
    }
    if everything:
        length, wanted = scene["durationInFrames"], example["durationInFrames"]
        change |= {"pace": example.get("pace"), "fonts": example.get("fonts")}
        change["speed"] = round(length / wanted, 3)
        fonts = [element["font"] for element in example["elements"] if element["kind"] == "text"]
        change["change"] = [{"id": "all", "font": fonts[0]}] if fonts else []
        moves = [each for element in example["elements"] for each in element["animations"]]
        change["animations"] = [
            {"element": "all", "kind": kind, "duration": round(mean(each["duration"] for each in moves))}
            for kind in dict.fromkeys(each["kind"] for each in moves)
        ]
    return {name: value for name, value in change.items() if value is not None}


def _colors(scene: Mapping[str, Any]) -> list[str]:
    """Return the colours of a scene's elements, in order."""
    named = [element.get(name) for element in scene.get("elements", ()) for name in _COLORS]
    return [*dict.fromkeys(color for color in named if color)]


_WHICH: Final = (
    r"all(?: (?:the )?scenes)?|every scene|everything|"
    rf"the (?:last|first)(?: (?:two|three|four|\d))?(?: scenes?)?|the (?:{'|'.join(ORDINALS)}) scene|"
    r"(?:scenes? )?\d{1,3}(?:(?:, | and |, and )\d{1,3}){0,20}|it|this"
)
_SLOTS: Final = {
    "scenes": _WHICH,
    "look": rf"faster|slower|shorter|longer|{_COLOR.pattern}",
    "amount": r"\d{1,2}(?:\.\d)?",
    "number": r"(?:scene )?\d{1,3}",
    "topic": _TOPIC.pattern,
    "end": "first|last",
    "place": r"at the (?:very )?(?:start|beginning|end)|(?:before|after) scene \d{1,3}",
}
FORMS: Final = (
    Form("scene.like", "make {scenes} [look ]like {example:number}", "make scenes 1 and 2 like 3", _SLOTS),
    Form("scene.look", "make {scenes} {look}", "make scene 2 faster", _SLOTS),
    Form("scene.colors", "use {example:number}'s colo[u]rs[ in {scenes}]", "use scene 3's colors", _SLOTS),
    Form("scene.text", "(change|replace) {quote} (with|to) {quote2:quote}[ in {scenes}]",
         'change "Hello" to "Hi" in scene 1', _SLOTS),
    Form("scene.length", "make {scenes} {amount} seconds[ long]", "make scene 2 4 seconds long", _SLOTS),
    Form("scene.add", "add a scene [{place} ]about {topic}[ {where:place}]",
         "add a scene about our prices at the start", _SLOTS),
    Form("scene.delete", "(delete|remove) {scenes}", "delete scenes 3 and 4", _SLOTS),
    Form("scene.copy", "(duplicate|copy) {scenes}", "duplicate scene 1", _SLOTS),
    Form("scene.move", "(move|put) {scenes} {end}", "move scene 3 first", _SLOTS),
    Form("video.new", "make a video about {topic}", "make a video about a bakery", _SLOTS),
)  # fmt: skip
_LINE: Final = re.compile(r"^(\d+)\. (scene-\d+) ", re.MULTILINE)
_LAST: Final = re.compile(r"^- \S+ \S+ (scene-\d+): completed", re.MULTILINE)


def answer(conversation: OfflineConversation) -> OfflineReply:
    """Return a plan, a filled form, or the reply that ends the turn."""
    for name, fill_in in (("ScenePatch", edit_form), ("Scene", new_scene)):
        if name in conversation.tools:
            given = json.loads(conversation.turn.text)
            if (form := fill_in(given)) is None:
                return OfflineReply(_UNKNOWN_STEP.format(given.get("request", "")), refused=True)
            return OfflineReply("", (PlannedCall(name, form),))
    if plans := conversation.turn.calls_to("submit_plan"):
        return OfflineReply(_report(plans[-1].result or {}, conversation.state))
    text, project = conversation.turn.text, conversation.state
    requests = match(text, FORMS)
    if not requests or "submit_plan" not in conversation.tools:
        return OfflineReply(decline(text, forms=FORMS), refused=True)
    try:
        steps = [step for at, request in enumerate(requests, 1) for step in _steps(request, project, at)]
    except Unclear as reason:
        return OfflineReply(f"I changed nothing, because {reason}.")
    return OfflineReply(
        "", (PlannedCall("submit_plan", {"steps": steps, "reasoning": "The offline grammar"}),)
    )


def _report(result: Mapping[str, Any], project: str) -> str:
    """Return what each step of the plan did, with the scenes by their numbers, as people name them."""
    if "error" in result:
        return f"I changed nothing: {result['error']}."
    numbers = {scene: f"Scene {number}" for number, scene in _LINE.findall(project)}
    lines = [(str(step.get("status")), _report_line(step, numbers)) for step in result.get("steps", ())]
    if result.get("status") == "rejected":
        return f"None of {len(lines)} steps was carried out. {'. '.join({line: 0 for _, line in lines})}."
    if any(status != "completed" for status, _ in lines):
        return outcome_sentence(lines)
    return ". ".join(line for _, line in lines) + "." if lines else "Nothing was changed."


def _report_line(step: Mapping[str, Any], numbers: Mapping[str, str]) -> str:
    scene = str(step.get("scene") or "")
    name = numbers.get(scene) or scene or step.get("tool", "")
    text = str(step.get("error") or step.get("message") or name).rstrip(".")
    return name + text.removeprefix(scene) if scene and text.startswith(scene) else text


def _steps(request: FormMatch, project: str, at: int) -> list[dict[str, Any]]:
    """Return the steps of the request in one place of the message."""
    ids = [scene for _, scene in _LINE.findall(project)]
    slots = request.slots
    if request.form == "video.new" and ids:
        raise Unclear("this video has scenes already; “add a scene about our prices” adds one")
    if request.form in {"scene.add", "video.new"}:
        return [*_new_scenes(request, ids, at)]
    scenes = _chosen(slots["scenes"], ids, project) if "scenes" in slots else ids
    if "example" in slots:
        [example] = _chosen(slots["example"], ids, project)
        return _like_steps(request.form, [scene for scene in scenes if scene != example], example)
    if request.form == "scene.look":
        look = slots["look"].casefold()
        return [_edit(scenes, look, f"Making {{}} {look}")]
    if request.form == "scene.text":
        return [_edit(scenes, f'replace "{slots["quote"]}" with "{slots["quote2"]}"', "Changing words in {}")]
    return _order_steps(request, scenes, ids)


def _order_steps(request: FormMatch, scenes: Sequence[str], ids: Sequence[str]) -> list[dict[str, Any]]:
    if request.form == "scene.length":
        return [{"tool": "trimScene", "scenes": [*scenes], "seconds": float(request.slots["amount"])}]
    if request.form == "scene.delete":
        return [{"tool": "deleteScene", "scenes": [*scenes]}]
    if request.form == "scene.copy":
        return [{"tool": "duplicateScene", "source": scene} for scene in scenes]
    rest = [scene for scene in ids if scene not in scenes]
    last = request.slots["end"].casefold() == "last"
    return [{"tool": "reorderScenes", "order": [*rest, *scenes] if last else [*scenes, *rest]}]


def _like_steps(form: str, changed: Sequence[str], example: str) -> list[dict[str, Any]]:
    only = "the colors of" if form == "scene.colors" else "like"
    look = {"tool": "contextGatherer", "scenes": [example], "title": f"Reading the style of {example}"}
    edit = _edit(changed, f"{only} {example}", f"Giving {{}} the look of {example}")
    return [look, {**edit, "like": [example]}]


def _new_scenes(request: FormMatch, ids: Sequence[str], at: int) -> Iterator[dict[str, Any]]:
    topic = request.slots["topic"]
    prompt = topic if _TOPIC.fullmatch(topic) else f"“{topic}”"
    if request.form == "scene.add":
        place = request.slots.get("place") or request.slots.get("where") or "at the end"
        behind = _behind(place.casefold(), ids)
        yield {"tool": "addScene", "scenes": [f"new-{at}"], "prompt": prompt, "name": topic[:40], **behind}
        return
    for number, part in enumerate(_PARTS, 1):
        yield {"tool": "addScene", "scenes": [f"new-{number}"], "prompt": f"{part}: {prompt}", "name": part}


def _behind(place: str, ids: Sequence[str]) -> dict[str, str]:
    """Return the field of a step for a new scene's place; empty for the end."""
    if not place.startswith("at "):
        [scene] = _chosen(place.split(" ", 1)[1], ids, "")
        at = ids.index(scene) - place.startswith("before")
        return {"behind": ids[at] if at >= 0 else "start"}
    return {} if place.endswith("end") else {"behind": "start"}


def _edit(scenes: Sequence[str], prompt: str, title: str) -> dict[str, Any]:
    if not scenes:
        raise Unclear("no scene is meant")
    return {"tool": "editScene", "scenes": [*scenes], "prompt": prompt} | (
        {"title": title.format(scenes[0])} if len(scenes) == 1 else {}
    )


def _chosen(words: str, ids: Sequence[str], project: str) -> list[str]:
    """Return the scenes that words mean; raise `Unclear` for a position that is not there."""
    lowered = words.casefold()
    if lowered in {"it", "this"}:
        last = _LAST.findall(project)
        if not last:
            raise Unclear("no scene was changed before")
        return last[-1:]
    if lowered.startswith(("all", "every")):
        return [*ids]
    if lowered.startswith("the ") and lowered.split()[1] in {"first", "last"}:
        count = re.search(r"two|three|four|\d", lowered)
        amount = int(value_of(count[0])) if count else 1
        if not 0 < amount <= len(ids):
            raise Unclear(f"there are {len(ids)} scenes")
        return [*ids[-amount:]] if "last" in lowered else [*ids[:amount]]
    positions = [int(value_of(word)) for word in re.findall(rf"\d+|{'|'.join(ORDINALS)}", lowered)]
    if wrong := [position for position in positions if not 0 < position <= len(ids)]:
        raise Unclear(f"there is no scene {wrong[0]}")
    return [ids[position - 1] for position in positions]
