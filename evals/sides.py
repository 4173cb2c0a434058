"""Turns built from data: an artefact before and after, a reply and calls, without a model and without Redis.

Controls (evals/controls.py) use them to put one good or bad answer before the checks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from callsheet.state.ads import ad
from callsheet.state.campaigns.sample import sample_campaigns
from callsheet.state.lessons.facts import Fact, fact_id
from callsheet.state.lessons.narration import Narration, Sentence, build_segment, slots
from callsheet.state.live_plan import Execution
from callsheet.state.versions import Version
from callsheet.state.video.scene import starters
from callsheet.storage.artefacts.artefacts import Stream
from evals import ads, campaigns, lessons, pages
from evals import scenes as scenes_of
from evals.lessons import EvaluatedLesson
from evals.pages import EvaluatedPage
from evals.scenes import EvaluatedProject
from evals.tasks import Task

Build = Callable[[Task, Mapping[str, Any], Any], Any]
"""Returns a side from a task, a description of changes, and the side before them, None for the first."""


def _version(stream: str, number: int, data: Mapping[str, Any]) -> Version:
    return Version(f"v{number}", stream, data, 0, "llm", None, "given")


def _with_version(streams: Mapping[str, Stream], name: str, data: Mapping[str, Any]) -> dict[str, Stream]:
    versions = streams[name].versions
    return {**streams, name: Stream((*versions, _version(name, len(versions) + 1, data)))}


def ad_side(task: Task, change: Mapping[str, Any], before: Any) -> Mapping[str, Stream]:
    """Return an ad: `voices`, `music`, `sfx`, or `versions`, a list of such changes made one by one.

    A track is a text, which keeps the voice of the earlier track at its place, or an object.
    """
    brief = ads.brief_of(task)
    language = str(brief["language"])
    streams: dict[str, Stream] = {**before} if before else dict.fromkeys(ad.STREAMS, Stream())
    if before is None and "ad" in task.setup:
        ad_case = ads.ad_case(task.setup["ad"])
        change = {"voices": ad_case["tracks"], "music": ad_case["music"], "sfx": ad_case["effects"], **change}
    for step in change.get("versions", [change]):
        if "voices" in step:
            tracks = ad.track_list(_tracks(step["voices"], streams["voices"], language))
            streams = _with_version(streams, "voices", ad.voices_data(tracks, language))
        if "music" in step:
            bed = ad.music_bed(step["music"], step.get("provider", "loudly"), brief["duration"])
            streams = _with_version(streams, "music", bed)
        if "sfx" in step:
            newest = streams["voices"].newest()
            count = len(newest.data["voiceTracks"]) if newest else 0
            effects = [one if isinstance(one, Mapping) else _effect(one) for one in step["sfx"]]
            streams = _with_version(streams, "sfx", {"soundFxPrompts": ad.effect_list(effects, count)})
    return streams


def _effect(short: Sequence[Any]) -> dict[str, Any]:
    """Return an effect from [description, place] or [description, place, index]."""
    description, kind, *index = short
    placement = {"type": kind, **({"index": index[0]} if index else {})}
    return {"description": description, "placement": placement, "duration": 2.0}


_VOICES: Final = {
    "english": "azure/en-GB-SoniaNeural",
    "spanish": "azure/es-ES-ElviraNeural",
    "german": "azure/de-DE-KatjaNeural",
}


def _tracks(short: Sequence[Any], stream: Stream, language: str) -> list[Mapping[str, Any]]:
    newest = stream.newest()
    old = newest.data["voiceTracks"] if newest else []
    tracks: list[Mapping[str, Any]] = []
    for at, one in enumerate(short):
        voice = old[min(at, len(old) - 1)]["voiceId"] if old else _VOICES.get(language, _VOICES["english"])
        tracks.append({"voiceId": voice, **({"text": one} if isinstance(one, str) else one)})
    return tracks


def lesson_side(task: Task, change: Mapping[str, Any], before: Any) -> EvaluatedLesson:
    """Return a lesson: `student`, `facts`, `confirm` (numbers), `added` (texts), `narration` and `length`."""
    data: dict[str, Any] = {**before.data} if before else {}
    counts: dict[str, int] = {**before.counts} if before else dict.fromkeys(lessons.STREAMS, 0)
    if before is None and (streams := lessons.streams_of(task.setup.get("before", "new"))):
        given = lessons.given_lesson(task.setup["facts"])
        data = {name: given[name] for name in streams}
        counts |= dict.fromkeys(streams, 1)
    new: dict[str, Any] = {}
    if "student" in change:
        new["student"] = {**data.get("student", {}), **change["student"]}
    if "facts" in change:
        new["facts"] = {"facts": [_fact(*one) for one in change["facts"]]}
    if "confirm" in change or "added" in change:
        proposed = data.get("facts", {}).get("facts", ())
        chosen = [proposed[at - 1] for at in change.get("confirm", ())]
        new["confirmed"] = {"facts": [*chosen, *(_fact("Own", one) for one in change.get("added", ()))]}
    if "narration" in change or "length" in change:
        new["narration"] = _narration({**data, **new}, change)
    return EvaluatedLesson({**data, **new}, {name: count + (name in new) for name, count in counts.items()})


def _fact(concept: str, details: str) -> Mapping[str, Any]:
    fact = Fact(id=fact_id(concept, details), concept=concept, details=details, confidence=0.9)
    return fact.model_dump()


def _narration(data: Mapping[str, Any], change: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the earlier narration with segments replaced by texts, or by [text, numbers of facts] pairs."""
    facts = data.get("confirmed", data.get("facts", {})).get("facts", ())
    old = Narration.model_validate(data["narration"]) if "narration" in data else None
    total_s = change.get("length", old.total_duration if old else 60)
    segments = []
    for slot in slots(total_s, "english"):
        script = change.get("narration", {}).get(slot.type)
        if isinstance(script, str):
            script = [[script, []]]
        sentences = [
            Sentence(text=text, factIds=tuple(facts[at - 1]["id"] for at in numbers))
            for text, numbers in script or ()
        ]
        if script is None and old:
            sentences = [*old.segment(slot.type).sentences]
            if total_s == old.total_duration:
                segments.append(old.segment(slot.type))
                continue
        segments.append(build_segment(slot, sentences, "english"))
    new = Narration(
        total_duration=total_s,
        reading_level="4.5",
        key_terms_count=0,
        segments=tuple(segments),
        topic=old.topic if old else "leaf",
        language="english",
        warnings=tuple(change.get("warnings", ())),
        readability=change.get("readability"),
    )
    return new.model_dump(mode="json")


def page_side(task: Task, change: Any, before: Any) -> EvaluatedPage:
    """Return a page after edits: `modify`, `create`, `delete`, `move` or `theme`; each is a version."""
    if before is None:
        page = pages.given_page(task.setup.get("page", "starter"))
        before = EvaluatedPage(page, [page] if task.setup.get("page", "starter") != "starter" else [])
    page, versions = before.page, [*before.versions]
    for step in change or ():
        page = pages.apply_edit(page, step, versions)
        versions.append(page)
    return EvaluatedPage(page, versions)


def project_side(task: Task, change: Mapping[str, Any], before: Any) -> EvaluatedProject:
    """Return a video: `scenes` (changed fields), `delete`, `add`, `order`, and the plan's `steps`."""
    if before is None:
        all_scenes = starters()[task.setup["project"]]
        start = {f"scene-{at}": scene.data() for at, scene in enumerate(all_scenes, 1)}
        before = EvaluatedProject(start, start, [])
    scenes: dict[str, Mapping[str, Any]] = {
        name: one for name, one in before.scenes.items() if name not in change.get("delete", ())
    }
    for name, fields in change.get("scenes", {}).items():
        scenes[name] = scenes_of.change_scene(scenes[name], fields)
    for name, source, fields in change.get("add", ()):
        scenes[name] = scenes_of.change_scene(before.scenes[source], fields)
    if "order" in change:
        scenes = {name: scenes[name] for name in change["order"]}
    executions: list[Execution] = [*before.executions]
    if "steps" in change:
        steps = [{"step": {"writes": [], "dependencies": [], **one}} for one in change["steps"]]
        executions.insert(0, {"id": f"plan-{len(executions) + 1}", "steps": steps})  # type: ignore[typeddict-item]
    return EvaluatedProject(scenes, before.start, executions)


def search_state(searches: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the state of a campaign conversation after searches: `tool`, `filters`, `ids` or `count`."""
    return {"results": [{"tool": "search", "output": _search_output(one)} for one in searches]}


def _search_output(search: Mapping[str, Any]) -> Mapping[str, Any]:
    ids = search.get("ids", ())
    by_id = {campaign.id: campaign.model_dump(mode="json") for campaign in sample_campaigns()}
    grouped = {"aggregation": {"groupBy": search["group_by"], "groups": []}} if "group_by" in search else {}
    return {
        "by": search["tool"],
        "query": search.get("query", ""),
        "count": search.get("count", len(ids)),
        "campaigns": [by_id[name] for name in ids],
        "detectedFilters": campaigns.resolve(search.get("filters", {})),
        **grouped,
    }
