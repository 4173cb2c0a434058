"""The offline model on videos: plans of a few forms, and the scenes and changes that their steps ask for."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from callsheet.providers.offline.conversation import OfflineConversation, OfflineReply, PlannedCall
from callsheet.providers.offline.grammar import Form, FormMatch, decline, match
from callsheet.providers.offline.grammar import number as value_of
from callsheet.providers.offline.video.forms import edit_form, new_scene

_WHICH: Final = (
    r"(?:all|every|the last|the first)(?: (?:two|three|four|\d))?(?: the)?(?: scenes?)?|"
    r"(?:scenes? )?\d{1,3}(?:(?:, | and |, and )\d{1,3}){0,20}|(?:it|this|everything)"
)
_LOOK: Final = r"faster|slower|shorter|longer|(?:[a-z]{3,12}|#[0-9a-f]{6})"
_SLOTS: Final = {
    "scenes": _WHICH,
    "look": _LOOK,
    "amount": r"\d{1,2}(?:\.\d)?",
    "topic": r"[^.;\"]{2,120}",
}
FORMS: Final = (
    Form("scene.like", "make {scenes} like {example:number}", "make scenes 1 and 2 like 3", {
        **_SLOTS, "number": r"(?:scene )?\d{1,3}",
    }),
    Form("scene.look", "make {scenes} {look}", "make all scenes faster", _SLOTS),
    Form("scene.colors", "use {example:number}'s colors[ in {scenes}]", "use scene 3's colors", {
        **_SLOTS, "number": r"(?:scene )?\d{1,3}",
    }),
    Form("scene.text", "(change|replace) {quote} (with|to) {quote2:quote}[ in {scenes}]",
         'change "Hello" to "Hi" in scene 1', _SLOTS),
    Form("scene.length", "make {scenes} {amount} seconds[ long]", "make scene 2 4 seconds long", _SLOTS),
    Form("scene.add", "add a scene about {topic}", "add a scene about our prices", _SLOTS),
    Form("scene.delete", "(delete|remove) {scenes}", "delete scenes 3 and 4", _SLOTS),
    Form("scene.copy", "(duplicate|copy) {scenes}", "duplicate scene 1", _SLOTS),
    Form("scene.first", "(move|put) {scenes} first", "move scene 3 first", _SLOTS),
    Form("scene.last", "(move|put) {scenes} last", "move scene 1 last", _SLOTS),
    Form("video.new", "make a video about {topic}", "make a video about a bakery", _SLOTS),
)  # fmt: skip
_LINE: Final = re.compile(r"^(\d+)\. (scene-\d+) ", re.MULTILINE)
_LAST: Final = re.compile(r"^- \S+ \S+ (scene-\d+): completed", re.MULTILINE)


class _Unclear(Exception):
    """The request names a scene that does not exist."""


def answer(conversation: OfflineConversation) -> OfflineReply:
    """Return a plan, a filled form, or the reply that ends the turn."""
    if "ScenePatch" in conversation.tools:
        return OfflineReply("", (PlannedCall("ScenePatch", edit_form(_material(conversation))),))
    if "Scene" in conversation.tools:
        return OfflineReply("", (PlannedCall("Scene", new_scene(_material(conversation))),))
    if plans := conversation.turn.calls_to("submit_plan"):
        return OfflineReply(_report(plans[-1].result or {}))
    text, project = conversation.turn.text, conversation.state
    requests = match(text, FORMS)
    if not requests or "submit_plan" not in conversation.tools:
        return OfflineReply(decline(text))
    try:
        steps = [step for request in requests for step in _steps(request, project)]
    except _Unclear as reason:
        return OfflineReply(f"I changed nothing, because {reason}.")
    return OfflineReply(
        "", (PlannedCall("submit_plan", {"steps": steps, "reasoning": "The offline grammar"}),)
    )


def _material(conversation: OfflineConversation) -> Mapping[str, Any]:
    try:
        given = json.loads(conversation.turn.text)
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def _report(result: Mapping[str, Any]) -> str:
    """Return what each step of the plan did."""
    if "error" in result:
        return f"I changed nothing: {result['error']}."
    lines = [
        str(step.get("error") or step.get("message") or step["status"]).rstrip(".")
        for step in result.get("steps", ())
    ]
    return ". ".join(lines) + "." if lines else "Nothing was changed."


def _steps(request: FormMatch, project: str) -> list[dict[str, Any]]:
    ids = [scene for _, scene in _LINE.findall(project)]
    slots = request.slots
    if request.form in {"scene.add", "video.new"}:
        return [*_new_scenes(request)]
    scenes = _chosen(slots["scenes"], ids, project) if "scenes" in slots else ids
    if "example" in slots:
        [example] = _chosen(slots["example"], ids, project)
        return _like(request.form, [scene for scene in scenes if scene != example], example)
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
    last = request.form == "scene.last"
    return [{"tool": "reorderScenes", "order": [*rest, *scenes] if last else [*scenes, *rest]}]


def _like(form: str, changed: Sequence[str], example: str) -> list[dict[str, Any]]:
    only = "the colors of" if form == "scene.colors" else "like"
    look = {"tool": "contextGatherer", "scenes": [example], "title": f"Reading the style of {example}"}
    edit = _edit(changed, f"{only} {example}", f"Giving {{}} the look of {example}")
    return [look, {**edit, "like": [example]}]


def _new_scenes(request: FormMatch) -> Iterator[dict[str, Any]]:
    topic = request.slots["topic"]
    if request.form == "scene.add":
        yield {"tool": "addScene", "scenes": ["new-1"], "prompt": topic, "name": topic[:40]}
        return
    for number, part in enumerate(_PARTS, 1):
        yield {"tool": "addScene", "scenes": [f"new-{number}"], "prompt": f"{part}: {topic}", "name": part}


_PARTS: Final = ("Opening", "What it is", "Why it is good", "Where to find it")


def _edit(scenes: Sequence[str], prompt: str, title: str) -> dict[str, Any]:
    if not scenes:
        raise _Unclear("no scene is meant")
    return {"tool": "editScene", "scenes": [*scenes], "prompt": prompt} | (
        {"title": title.format(scenes[0])} if len(scenes) == 1 else {}
    )


def _chosen(words: str, ids: Sequence[str], project: str) -> list[str]:
    """Return the scenes that words mean; raise `_Unclear` for a position that is not there."""
    lowered = words.casefold()
    if lowered in {"it", "this"}:
        last = _LAST.findall(project)
        if not last:
            raise _Unclear("no scene was changed before")
        return last[-1:]
    if lowered.startswith(("all", "every")):
        return [*ids]
    if lowered.startswith("the "):
        count = re.search(r"two|three|four|\d", lowered)
        amount = int(value_of(count[0])) if count else 1
        return [*ids[-amount:]] if "last" in lowered else [*ids[:amount]]
    positions = [int(digits) for digits in re.findall(r"\d+", lowered)]
    if wrong := [position for position in positions if not 0 < position <= len(ids)]:
        raise _Unclear(f"there is no scene {wrong[0]}")
    return [ids[position - 1] for position in positions]
