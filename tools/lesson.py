"""The three tools of a lesson (B1-B22): who it is for, what there is to teach, and the narration."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from langgraph.config import get_stream_writer
from pydantic import BaseModel, ConfigDict, Field

from state import narration, student
from state.errors import Conflict, Invalid
from state.facts import Fact, added
from state.narration import Kind, Narration
from state.student import Student
from state.versions import Version
from tools import fact_finding, narrating, sources
from tools.call import Call
from tools.fact_finding import Wish
from tools.narrating import Order
from tools.registry import tool
from tools.sources import Source
from tools.terms import Terms

_TRIES: Final = 5
_SESSION: Final = "Set by the server; leave it out"
Level = Literal["simpler", "harder"]


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, coerce_numbers_to_str=True)

    sessionId: str | None = Field(None, description=_SESSION, max_length=255)


class StudentInfo(_Arguments):
    """Who the lesson is for (B2); either field alone will do (B-R11)."""

    child_age: str | None = Field(
        None, description="Age as it was said: 7, ten, 12 years old", max_length=100
    )
    child_interest: str | None = Field(
        None, description="Interests as they were said: soccer, Minecraft", max_length=300
    )


class Content(_Arguments):
    """What to teach from (B4)."""

    content: str = Field(
        "",
        description="The lesson text as it was given, or a web page's address; empty for what was uploaded",
        max_length=90_000,
    )
    guidance: str | None = Field(
        None, description="What the facts should be about, when others were asked for", max_length=1000
    )


class GivenFact(BaseModel):
    """One fact to tell (B9)."""

    model_config = ConfigDict(extra="ignore")

    id: str | None = Field(None, max_length=100)
    concept: str = Field(min_length=1, max_length=200)
    details: str = Field(min_length=1, max_length=4000)
    confidence: float | None = Field(None, ge=0, le=1)


class NarrationWish(_Arguments):
    """What to narrate (B9)."""

    facts: list[GivenFact] = Field(
        default=[],
        description="The chosen facts; those confirmed in the session go before them",
        max_length=40,
    )
    topic: str | None = Field(None, max_length=300)
    target_duration: float = Field(60, description="Seconds, 15 to 600")
    child_age: str | None = Field(None, max_length=100)
    child_interest: str | None = Field(None, max_length=300)
    segments: list[Kind] | None = Field(
        None, description="Only these are written again, the others stay as they are; all when left out"
    )
    guidance: str | None = Field(None, description="What should be different", max_length=1000)


@tool(schema=StudentInfo, display="Noting who the lesson is for", writes=("student",))
async def saveStudentInfoTool(args: StudentInfo, call: Call) -> dict[str, Any]:  # noqa: N802 -- B1
    """Save the student's age and interests, when they are mentioned. Either alone will do."""
    if not (args.child_age or args.child_interest):
        raise Invalid("neither child_age nor child_interest is given", remedy="give at least one of them")
    for _ in range(_TRIES):
        tip = await call.artefact.tip("student")
        known = Student.model_validate(tip.newest.data if tip.newest else {})
        now = known.with_news(args.child_age, args.child_interest)
        _, warnings = student.level(now.child_age)
        result = {
            "success": True,
            "message": f"Noted: {_described(now)}.",
            **now.model_dump(),
            "warnings": warnings,
        }
        try:
            return await call.write("student", now.model_dump(), result=result, onto=tip)
        except Conflict:
            continue
    raise Conflict("the student's data kept changing", remedy="try again")


@tool(
    schema=Content,
    display="Finding the facts",
    reads=("source", "facts"),
    writes=("facts",),
    terms=Terms(timeout_s=300.0),
)
async def extractFactsTool(args: Content, call: Call) -> dict[str, Any]:  # noqa: N802 -- B1
    """Find the facts of the lesson material. ALWAYS use it when the teacher gives lesson content."""
    uploaded, before = await _newest(call, "source"), await _newest(call, "facts")
    source = await sources.chosen(args.content, uploaded, before)
    found = await fact_finding.facts_of(
        source.text, model=_model(call), wish=_wish(args, source, before), report=_report
    )
    if not found.facts:
        raise Invalid(
            f"{source.name} holds nothing to teach from",
            remedy="give whole sentences about a subject",
        )
    facts = [fact.model_dump() for fact in found.facts]
    shown = {"topic": found.topic, "learningObjective": found.objective, "facts": facts}
    warnings = [*source.warnings, *found.warnings]
    result = {
        "success": True,
        "message": f"I found {_count(len(facts), 'fact')} about {found.topic}. Which shall the lesson tell?",
        **shown,
        "warnings": warnings,
        "status": "facts_extracted",
        "cost": found.cost,
        "duration": found.duration,
    }
    kept = {**shown, "language": found.language, "warnings": warnings, "source": source.reference(uploaded)}
    return await call.write("facts", kept, result=result)


@tool(
    schema=NarrationWish,
    display="Writing the narration",
    reads=("facts", "confirmed", "student", "narration"),
    writes=("narration",),
    terms=Terms(timeout_s=180.0),
)
async def generateNarrationTool(args: NarrationWish, call: Call) -> dict[str, Any]:  # noqa: N802 -- B1
    """Write the narrated script from the facts that the teacher has chosen."""
    newest = {name: await _newest(call, name) for name in ("facts", "confirmed", "student", "narration")}
    order, warnings = _order(args, newest, call)
    earlier = _earlier(args, newest["narration"])
    made = await narrating.narrated(order, model=_model(call), earlier=earlier, only=args.segments or ())
    whole = made.narration.model_copy(update={"warnings": (*warnings, *made.narration.warnings)})
    result = {
        "success": True,
        "message": _said(whole, made.changed),
        "narration": whole.model_dump(mode="json"),
        "changedSegments": list(made.changed),
        "status": "script_generated",
        "cost": made.cost,
        "duration": made.duration,
    }
    return await call.write("narration", whole.model_dump(mode="json"), result=result)


TOOLS: Final = (saveStudentInfoTool, extractFactsTool, generateNarrationTool)


def chosen_facts(
    given: Sequence[GivenFact], extracted: Mapping[str, Any], confirmed: Mapping[str, Any]
) -> tuple[Fact, ...]:
    """Return the facts to tell: the confirmed ones, whatever a model sends beside them (B10, B-R4).

    Where none are confirmed, those given must be among the extracted ones, if there are any.
    """
    if confirmed.get("facts"):
        return tuple(Fact.model_validate(one) for one in confirmed["facts"])
    known = [Fact.model_validate(one) for one in extracted.get("facts", ())]
    if not known:
        return tuple(added(one.concept, one.details) for one in given)
    return tuple(_known(one, known) for one in given)


def _known(given: GivenFact, known: Sequence[Fact]) -> Fact:
    for one in known:
        if given.id == one.id or (given.concept.casefold(), given.details) == (
            one.concept.casefold(),
            one.details,
        ):
            return one
    raise Invalid(
        f"the fact {given.concept!r} is neither confirmed nor found in the material",
        remedy="let the teacher choose the facts first",
    )


def _order(args: NarrationWish, newest: Mapping[str, Version | None], call: Call) -> tuple[Order, list[str]]:
    data = {name: version.data if version else {} for name, version in newest.items()}
    who = Student(child_age=args.child_age, child_interest=args.child_interest)
    saved = Student.model_validate(data["student"])
    now = who.with_news(saved.child_age, saved.child_interest)
    level, warnings = student.level(now.child_age)
    facts = chosen_facts(args.facts, data["facts"], data["confirmed"])
    order = Order(
        topic=str(data["facts"].get("topic") or args.topic or (facts[0].concept if facts else "")),
        facts=facts,
        total_s=narration.clamped(args.target_duration),
        level=level,
        interests=tuple(student.interests(now.child_interest)),
        language=str(data["facts"].get("language") or call.scope.facts.get("language") or "english"),
        subject=call.scope.facts.get("subject", "general"),
        guidance=args.guidance or "",
    )
    return order, warnings


def _earlier(args: NarrationWish, newest: Version | None) -> Narration | None:
    if not args.segments:
        return None
    if newest is None:
        raise Invalid("there is no narration yet to change", remedy="leave `segments` out to write all of it")
    return Narration.model_validate(newest.data)


def _wish(args: Content, source: Source, before: Version | None) -> Wish:
    """Return what is wanted; where it is other facts of the same material, those proposed before are not."""
    if not args.guidance:
        return Wish()
    earlier = before.data if before and before.data.get("source", {}).get("digest") == source.digest else {}
    quotes = [fact["source"]["quote"] for fact in earlier.get("facts", ()) if fact.get("source")]
    return Wish(args.guidance, tuple(quotes))


async def _newest(call: Call, stream: str) -> Version | None:
    return (await call.artefact.tip(stream)).newest


def _model(call: Call) -> str:
    return call.scope.facts.get("model", "")


def _report(done: int, of: int) -> None:
    if of > 1:
        _told({"type": "progress", "name": "Reading the material", "done": done, "of": of})


def _told(event: Mapping[str, Any]) -> None:
    try:
        writer = get_stream_writer()
    except RuntimeError:  # outside of a graph nobody listens
        return
    writer(event)


def _described(who: Student) -> str:
    age, likes = who.child_age, who.child_interest
    return " and ".join([*([f"age {age}"] if age else []), *([f"likes {likes}"] if likes else [])])


def _said(whole: Narration, changed: Sequence[str]) -> str:
    if len(changed) == len(whole.segments):
        return f"The narration is ready: {whole.total_duration} s in {len(whole.segments)} segments."
    if not changed:
        return "Nothing had to be written again."
    return f"Written again: {', '.join(changed)}; the rest is as it was."


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"
