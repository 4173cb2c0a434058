"""Three tools of a lesson, for student, facts and narration; the fourth is in `decisions`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from langgraph.config import get_stream_writer

from callsheet.providers.speech import local_rate
from callsheet.state.errors import Conflict, Invalid, Unavailable
from callsheet.state.lessons import narration, student
from callsheet.state.lessons.facts import Fact, new_fact, not_offered, shortfall
from callsheet.state.lessons.narration import Narration, Segment
from callsheet.state.lessons.selection import OTHERS, fact_offer
from callsheet.state.lessons.student import Student
from callsheet.state.versions import Version
from callsheet.tools.call import Call, Scope
from callsheet.tools.lessons import fact_finding, sources, web_sources
from callsheet.tools.lessons import narration as narration_writer
from callsheet.tools.lessons.arguments import ExtractionRequest, GivenFact, NarrationRequest, StudentInfo
from callsheet.tools.lessons.decisions import chooseFactsTool
from callsheet.tools.lessons.fact_finding import Extraction, ExtractionPreferences
from callsheet.tools.lessons.narration import NarrationBrief, WrittenNarration
from callsheet.tools.lessons.sources import Source
from callsheet.tools.lessons.web_sources import WEB
from callsheet.tools.models.structured import is_offline
from callsheet.tools.policy import ToolOptions
from callsheet.tools.registry import Tool, tool
from callsheet.tools.web_client import WebClient

_ATTEMPTS: Final = 5
_MAX_EARLIER: Final = 100
"""Facts of earlier proposals that remain available."""
# Provider and form retry a failed model already; retries of the guard would multiply them.
_READING: Final = ToolOptions(timeout_s=300.0, tries=1)
_WRITING: Final = ToolOptions(timeout_s=300.0, tries=1)


@tool(schema=StudentInfo, display="Noting who the lesson is for", writes=("student",))
async def saveStudentInfoTool(args: StudentInfo, call: Call) -> dict[str, Any]:  # noqa: N802 -- its name on the wire
    """Save the student's age, interests and way of learning, as soon as one is mentioned."""
    news = (args.child_age, args.child_interest, args.learning_style)
    if not any(news):
        raise Invalid(
            "neither child_age, child_interest nor learning_style is given",
            remedy="give at least one of them",
        )
    for _ in range(_ATTEMPTS):
        head = await call.artefact.stream_head("student")
        saved = Student.model_validate(head.newest.data if head.newest else {})
        updated = saved.with_news(*news)
        _, warnings = student.level(updated.child_age)
        message = f"Noted: {_describe_student(updated)}."
        result = {"success": True, "message": message, **updated.kept(), "warnings": warnings}
        try:
            return await call.write("student", updated.kept(), result=result, expected_head=head)
        except Conflict:
            continue
    raise Conflict("concurrent changes of the student's data prevented the write", remedy="try again")


def create_extract_tool(web: WebClient) -> Tool:
    """Return the tool that finds facts; it fetches pages with this client."""

    @tool(
        schema=ExtractionRequest,
        display="Finding the facts",
        reads=("source", "facts", "confirmed", "narration", "student"),
        writes=("facts",),
        options=_READING,
    )
    async def extractFactsTool(args: ExtractionRequest, call: Call) -> dict[str, Any]:  # noqa: N802 -- its name on the wire
        """Find the facts of the lesson material. ALWAYS use it when the teacher gives lesson content."""
        uploaded, previous = await _newest(call, "source"), await _newest(call, "facts")
        uploaded, source = await _stored_source(args, uploaded, previous, call)
        source = source or await _read_content(args.content, web, call.scope)
        preferences = _extraction_preferences(args, source, previous, await _newest(call, "student"))
        extraction = await fact_finding.extract_facts_cached(source, preferences, call, _report)
        if preferences.avoid:
            extraction = _other_facts(extraction, args.guidance, preferences.avoid, previous)
        if not extraction.facts:
            raise _no_facts(source, other=bool(previous and args.guidance))
        data, result = _extraction_data(extraction, source)
        ids = {fact.id for fact in extraction.facts}
        earlier = [fact for fact in proposed_facts(previous) if fact["id"] not in ids]
        origin = {"language": extraction.language, "source": source.reference(uploaded), "earlier": earlier}
        duration = _target_duration(args, previous, await _newest(call, "narration"))
        confirmed = await _newest(call, "confirmed")
        result |= fact_offer(data | origin, confirmed.data if confirmed else {}).earlier_entry
        return await call.write("facts", data | origin | duration, result=result)

    return extractFactsTool


@tool(
    schema=NarrationRequest,
    display="Writing the narration",
    reads=("facts", "confirmed", "student", "narration"),
    writes=("narration",),
    options=_WRITING,
)
async def generateNarrationTool(args: NarrationRequest, call: Call) -> dict[str, Any]:  # noqa: N802 -- its name on the wire
    """Write the narration again, or parts of it. After a choice of facts it is written by itself."""
    newest = {name: await _newest(call, name) for name in ("facts", "confirmed", "student", "narration")}
    if call.scope.facts.get("choice") == "person" and newest["facts"] and not newest["confirmed"]:
        raise Invalid("the teacher has not chosen facts yet", remedy="wait for the choice")
    brief, warnings = _narration_brief(args, newest, call)
    earlier, only = await _narration_to_change(args, brief, newest["narration"], call)
    keep = [one for one in _segments_to_keep(args, brief, newest["narration"]) if one.id not in only]
    written = await narration_writer.write_narration(
        brief, model=call.scope.model, earlier=earlier, only=only, keep=keep, spread=not args.segments
    )
    _require_other_words(args, written.narration, newest["narration"])
    previous = newest["narration"].data if newest["narration"] else {}
    own = _own_segments(args, written, previous)
    if newest["narration"] and (lost := _lost_wishes(args, written, newest["narration"])):
        warnings += lost
        own[narration.OWN_WORDS] = [newest["narration"].id]
    notes = tuple(dict.fromkeys([*warnings, *written.narration.warnings]))
    script = written.narration.model_copy(update={"warnings": notes})
    if empty := script.empty_segments():
        raise Unavailable(
            f"the model's narration has no sentence left for: {', '.join(map(narration.kind_name, empty))}",
            remedy="try again, or choose other facts",
        )
    data = script.model_dump(mode="json")
    result = {
        "success": True,
        "message": _narration_message(args, script, written.changed, keep, previous),
        "narration": data,
        "warnings": list(script.warnings),
        "changedSegments": list(written.changed),
        **({} if written.changed else {"unchanged": True}),
        "status": "script_generated",
        "cost": written.cost,
        "duration": written.duration,
    }
    wishes = {"gradesMoved": _level_shift(args, previous), "wishedLanguage": _wished_language(args, previous)}
    kept = {name: value for name, value in (wishes | own).items() if value}
    return await call.write("narration", data | kept, result=result)


def _segments_to_keep(args: NarrationRequest, brief: NarrationBrief, newest: Version | None) -> list[Segment]:
    """Return the segments that a person changed, which stay beside more facts and in another length or level.

    None of dropped facts or another language, none without room for its words, and none if all would stay.
    """
    if args.segments is None:
        applies = args.target_duration is not None or args.level_shift
    else:
        applies = args.segments == [] and newest is not None and newest.data["topic"] == brief.topic
    if newest is None or not applies or newest.data["language"] != brief.language:
        return []
    before, facts = Narration.model_validate(newest.data), {fact.id for fact in brief.facts}
    room = {slot.type: slot.budget for slot in narration.slots(brief.total_s, brief.language)}
    names = {*newest.data.get(narration.OWN, ()), *newest.data.get(narration.WISHED, ())}
    own = [one for one in before.segments if one.id in names]
    keep = [
        one
        for one in own
        if one.facts <= facts and narration.length(one.narration, brief.language) <= room[one.type]
    ]
    return keep if len(keep) < len(before.segments) else []


def _own_segments(
    args: NarrationRequest, written: WrittenNarration, previous: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return the entries on the person's own segments; a request in words for a segment alone is a wish.

    Another level of a segment is none: at another length it is written at that level again.
    """
    named = {written.narration.segment(name).id for name in args.segments or ()}
    wished = [one for one in written.changed if one in named and args.guidance]
    rewritten = [one for one in written.changed if one not in wished]
    # One that did not change keeps its warnings, and so the version that they name.
    lost = [] if written.changed else [*previous.get(narration.OWN_WORDS, ())]
    return narration.own_segments(previous, wished=wished, rewritten=rewritten) | {narration.OWN_WORDS: lost}


def _lost_wishes(args: NarrationRequest, written: WrittenNarration, newest: Version) -> list[str]:
    """Return the warnings about a person's own segments that were written again unasked."""
    named = {written.narration.segment(name).id for name in args.segments or ()}
    warnings = []
    for key, done in (
        (narration.OWN, ("you had changed it", "your words")),
        (narration.WISHED, ("you had asked for it in other words", "them")),
    ):
        lost = [one for one in newest.data.get(key, ()) if one in written.changed and one not in named]
        if lost:
            names = ", ".join(map(narration.kind_name, lost))
            warnings.append(f"{narration.LOST} {done[0]}: {names}; {newest.id} has {done[1]}")
    return warnings


def _kept_words(keep: Sequence[Segment], previous: Mapping[str, Any]) -> str:
    """Return in words which segments were kept, and for whose sake; empty for none."""
    parts = []
    for key, reason in ((narration.OWN, "as you changed it"), (narration.WISHED, "as you asked for it")):
        names = [narration.kind_name(one.id) for one in keep if one.id in previous.get(key, ())]
        parts += [f"kept {reason}: {', '.join(names)}"] if names else []
    words = "; ".join([*parts, "name it to have it written again."]) if parts else ""
    return words[:1].upper() + words[1:]


def _require_other_words(args: NarrationRequest, written: Narration, newest: Version | None) -> None:
    """Raise `Unavailable` if another length or level was asked for and the words are the same."""
    if newest is None:
        return
    earlier = Narration.model_validate(newest.data)
    wish = ""
    if args.level_shift and not args.segments:
        wish = "easier" if args.level_shift < 0 else "harder"
    elif args.target_duration is not None and written.total_duration != earlier.total_duration:
        wish = "shorter" if written.total_duration < earlier.total_duration else "longer"
    if wish and [one.narration for one in written.segments] == [one.narration for one in earlier.segments]:
        other = {"longer": "more", "shorter": "fewer"}.get(wish, "other ones")
        raise Unavailable(
            f"the narration is not {wish}: the model wrote the same words again",
            remedy=f"say “choose the facts again” and choose {other}",
        )


TOOLS: Final = (saveStudentInfoTool, create_extract_tool(WEB), chooseFactsTool, generateNarrationTool)


def chosen_facts(
    given: Sequence[GivenFact], extracted: Mapping[str, Any], confirmed: Mapping[str, Any]
) -> tuple[Fact, ...]:
    """Return the facts to narrate: the confirmed ones, whatever a model sends.

    Without confirmed facts, the given ones must be among the extracted ones, if there are any.
    """
    if confirmed.get("facts"):
        return tuple(Fact.model_validate(one) for one in confirmed["facts"])
    known = [Fact.model_validate(one) for one in extracted.get("facts", ())]
    if not known:
        return tuple(new_fact(one.concept, one.details) for one in given)
    return tuple(_match_fact(one, known) for one in given)


def _target_duration(
    args: ExtractionRequest, previous: Version | None, narrated: Version | None
) -> dict[str, int]:
    """Return the requested length: from this material, or from one that is not narrated yet."""
    pending = previous is not None and not (narrated and narrated.created_ms >= previous.created_ms)
    seconds = args.target_duration or (previous.data.get("targetDuration") if previous and pending else None)
    return {"targetDuration": narration.clamp_length(seconds)} if seconds else {}


async def _stored_source(
    args: ExtractionRequest, newest: Version | None, previous: Version | None, call: Call
) -> tuple[Version | None, Source | None]:
    """Return the stored material that a request means, joined if it names several, and the version it is.

    Without a name or content, a request for other facts means the material of the proposed ones. An unknown
    id beside a content means the content. Raises `Invalid` for an unknown id alone.
    """
    names: Sequence[str] = args.source_ids
    if args.content and not all(sources.is_stored(name, newest.id if newest else None) for name in names):
        names = ()
    if not names and args.guidance and not args.content:
        known = sources.material_of_proposal(previous, newest)
        if isinstance(known, Source):
            return None, known
        names = known or ()
    if not names:
        return newest, sources.source_to_read(args.content, newest, previous)
    ids = list(dict.fromkeys(sources.version_id(name, newest.id if newest else None) for name in names))
    versions = [await call.artefact.version("source", one) for one in ids]
    return versions[0], sources.joined_source([sources.stored_source(one.data) for one in versions])


async def _read_content(content: str, web: WebClient, scope: Scope) -> Source:
    """Return the text, or the page at its address; the offline model fetches nothing."""
    page = sources.page_address(content)
    if page is None:
        return sources.pasted_source(content)
    if is_offline(scope.model):
        raise Invalid(
            f"the offline model fetches no web pages: {page[:200]!r}",
            remedy="add the page to the lesson's sources yourself, or paste its text",
        )
    return await web_sources.fetch_source(page, web, _report, owner=scope.owner)


def _other_facts(
    extraction: Extraction, guidance: str | None, avoid: Sequence[str], previous: Version | None
) -> Extraction:
    """Return the facts that were not proposed yet, few or many; the lesson is about what it was about."""
    data = previous.data if previous else {}
    fresh = not_offered(extraction.facts, avoid)
    few = shortfall(extraction.facts)
    return replace(
        extraction,
        # Where a person named a subject, a known fact about it is a better answer than none.
        facts=fresh if fresh or guidance == OTHERS else extraction.facts,
        warnings=tuple(one for one in extraction.warnings if one not in few),
        topic=data.get("topic") or extraction.topic,
        objective=data.get("learningObjective") or extraction.objective,
    )


def _extraction_data(extraction: Extraction, source: Source) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the data of an extraction's version, and the tool's result."""
    count = len(extraction.facts)
    facts = f"{count} fact{'s' * (count != 1)}"
    data = {
        "topic": extraction.topic,
        "learningObjective": extraction.objective,
        "facts": [fact.model_dump() for fact in extraction.facts],
        "warnings": [*source.warnings, *extraction.warnings],
    }
    result = {
        "success": True,
        "message": f"I found {facts} about {extraction.topic}. Which shall the lesson tell?",
        "status": "facts_extracted",
        "cached": extraction.cached,
        "cost": extraction.cost,
        "duration": extraction.duration,
    }
    return data, data | result


def proposed_facts(previous: Version | None) -> list[dict[str, Any]]:
    """Return all facts proposed so far, newest first, each with the version of its proposal."""
    if previous is None:
        return []
    newest = [{**fact, "version": previous.id} for fact in previous.data.get("facts", ())]
    return [*newest, *previous.data.get("earlier", ())][:_MAX_EARLIER]


def _no_facts(source: Source, *, other: bool) -> Invalid:
    if other:
        return Invalid(
            f"{source.name} has no other facts about that",
            remedy="choose from the proposed ones, or add some",
        )
    return Invalid(f"{source.name} contains no facts", remedy="give complete sentences about a subject")


def _match_fact(given: GivenFact, candidates: Sequence[Fact]) -> Fact:
    text = (given.concept.casefold(), given.details)
    for fact in candidates:
        if given.id == fact.id or text == (fact.concept.casefold(), fact.details):
            return fact
    raise Invalid(
        f"the fact {given.concept!r} is neither confirmed nor extracted",
        remedy="let the teacher choose the facts first",
    )


def _narration_brief(
    args: NarrationRequest, newest: Mapping[str, Version | None], call: Call
) -> tuple[NarrationBrief, list[str]]:
    data = {name: version.data if version else {} for name, version in newest.items()}
    saved = Student.model_validate(data["student"])
    listener = Student(child_age=args.child_age, child_interest=args.child_interest).with_news(
        saved.child_age, saved.child_interest, saved.learning_style
    )
    level, warnings = student.level(listener.child_age)
    facts = chosen_facts(args.facts, data["facts"], data["confirmed"])
    material_language = str(data["facts"].get("language") or "")
    language = _wished_language(args, data["narration"]) or material_language
    brief = NarrationBrief(
        topic=str(data["facts"].get("topic") or args.topic or (facts[0].concept if facts else "")),
        facts=facts,
        total_s=_length_s(args, newest["narration"], newest["facts"]),
        level=student.shifted_level(level, _level_shift(args, data["narration"])),
        interests=tuple(student.interests(listener.child_interest)),
        language=language,
        subject=call.scope.facts.get("subject", "general"),
        guidance=_guidance(args),
        style=student.visual_guidance(listener.learning_style, language),
        age=student.age(listener.child_age),
        same_language=language == material_language,
    )
    return brief, warnings


def _wished_language(args: NarrationRequest, previous: Mapping[str, Any]) -> str:
    """Return the language that the person wants instead of the material's; it stays until another one."""
    return args.language or str(previous.get("wishedLanguage", ""))


def _guidance(args: NarrationRequest) -> str:
    """Return what is wanted; another level of a part is guidance, since the lesson keeps its own."""
    level = ("in easier words" if args.level_shift < 0 else "in harder words") if args.level_shift else ""
    return "; ".join(filter(None, [args.guidance, level if args.segments else ""]))


def _level_shift(args: NarrationRequest, previous: Mapping[str, Any]) -> int:
    """Return the shift of the reading level in grades, summed over all requests so far."""
    # A request about one segment does not change the level of the lesson.
    change = 0 if args.segments else args.level_shift or 0
    return int(previous.get("gradesMoved", 0)) + change


async def _narration_to_change(
    args: NarrationRequest, brief: NarrationBrief, newest: Version | None, call: Call
) -> tuple[Narration | None, list[str]]:
    """Return the narration to change, if any, and the requested segments and those with edited facts."""
    if args.segments and newest is None:
        raise Invalid("there is no narration to change", remedy="leave `segments` out to write all of it")
    if args.segments is None or newest is None:
        return None, []
    earlier = Narration.model_validate(newest.data)
    if earlier.language != brief.language:
        return None, []
    choices = (await call.artefact.stream("confirmed")).versions
    narrated = [version for version in choices if version.created_ms <= newest.created_ms]
    old_text = {
        fact["id"]: (fact["concept"], fact["details"])
        for fact in (narrated[-1].data["facts"] if narrated else ())
    }
    edited = [
        fact.id
        for fact in brief.facts
        if fact.id in old_text and old_text[fact.id] != (fact.concept, fact.details)
    ]
    rewrite = dict.fromkeys([*args.segments, *(name for fact in edited for name in earlier.says(fact))])
    return (earlier, list(rewrite)) if args.segments or _is_reusable(earlier, brief) else (None, [])


def _is_reusable(earlier: Narration, brief: NarrationBrief) -> bool:
    """Return True if the narration has some of the facts, with the same topic, level and length."""
    requested = (brief.topic, brief.language, f"{brief.level:g}", brief.total_s)
    same = (earlier.topic, earlier.language, earlier.reading_level, earlier.total_duration) == requested
    return same and any(fact.id in earlier.facts for fact in brief.facts)


def _length_s(args: NarrationRequest, newest: Version | None, facts: Version | None) -> int:
    """Return the seconds requested now, or with the material since the last narration.

    A rewritten narration keeps its length.
    """
    if args.target_duration is not None:
        return narration.clamp_length(args.target_duration)
    requested = facts.data.get("targetDuration") if facts else None
    if newest and not (requested and facts and facts.created_ms > newest.created_ms):
        return int(newest.data["total_duration"])
    return narration.clamp_length(requested or narration.DEFAULT_S)


def _extraction_preferences(
    args: ExtractionRequest, source: Source, previous: Version | None, saved: Version | None
) -> ExtractionPreferences:
    """Return the preferences; a request for other facts of the same material avoids those proposed."""
    child_age = saved.data.get("child_age") if saved else None
    age = student.age(child_age)
    level = student.level(child_age)[0] if age is not None else None
    if not args.guidance:
        return ExtractionPreferences(age=age, level=level)
    same = previous is not None and previous.data.get("source", {}).get("digest") == source.digest
    earlier = previous.data if previous and same else {}
    proposed = (*earlier.get("facts", ()), *earlier.get("earlier", ()))
    known = [fact["source"]["quote"] if fact.get("source") else fact["details"] for fact in proposed]
    return ExtractionPreferences(args.guidance, tuple(known), age, level)


async def _newest(call: Call, stream: str) -> Version | None:
    return (await call.artefact.stream_head(stream)).newest


def _report(done: int, total: int) -> None:
    if total <= 1:
        return
    try:
        writer = get_stream_writer()
    except RuntimeError:  # outside of a graph nothing is streamed
        return
    writer({"type": "progress", "name": "Reading the material", "done": done, "of": total})


def _describe_student(who: Student) -> str:
    parts = (("age", who.child_age), ("likes", who.child_interest), ("learns best", who.learning_style))
    return " and ".join(f"{name} {words}" for name, words in parts if words)


def _narration_message(
    args: NarrationRequest,
    script: Narration,
    changed: Sequence[str],
    keep: Sequence[Segment],
    previous: Mapping[str, Any],
) -> str:
    if not changed:
        reason = "it tells these facts already" if args.segments == [] else "there is no other wording for it"
        return f"The narration is unchanged: {reason}."
    names = ", ".join(map(narration.kind_name, changed))
    if len(changed) + len(keep) == len(script.segments):
        length = script.length_words(local_rate(script.language))
        ready = f"The narration is ready, with {len(script.segments)} segments: {length}."
        return f"{ready} {_kept_words(keep, previous)}".strip()
    return f"Rewritten: {names}; the rest is unchanged."
