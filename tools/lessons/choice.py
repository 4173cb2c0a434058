"""The tool that records a person's choice of facts in words: models read the words, code the ids."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.errors import Invalid
from callsheet.state.lessons.facts import Fact, distinct, new_fact
from callsheet.state.lessons.selection import MAX_CHOSEN, chosen_facts, narration_arguments
from callsheet.state.versions import Version
from callsheet.tools.call import Call
from callsheet.tools.lessons.arguments import LessonArguments, LessonLanguage, LevelShift
from callsheet.tools.registry import tool

_Text = Annotated[str, Field(min_length=1, max_length=4000)]


class FactEdit(BaseModel):
    """A chosen fact in other words."""

    model_config = ConfigDict(extra="ignore")

    id: str = Field(description="Id or number of a fact that is in fact_ids", max_length=100)
    concept: str | None = Field(None, min_length=1, max_length=200, description="Leave out unless it changes")
    details: _Text | None = Field(None, description="Leave out unless they change; the full new text")


class AddedFact(BaseModel):
    """A fact that the person has stated."""

    model_config = ConfigDict(extra="ignore")

    concept: str = Field(min_length=1, max_length=200, description="Its subject in two or three words")
    details: _Text = Field(description="The fact in the person's own words")


class FactChoice(LessonArguments):
    """A person's choice, as the model reads it."""

    fact_ids: list[str] = Field(
        max_length=MAX_CHOSEN,
        description="Every fact the lesson shall tell, by id or by its number in the newest list; empty only"
        " with additions, which are then offered and not chosen",
    )
    edits: list[FactEdit] = Field(
        [], max_length=MAX_CHOSEN, description="Leave out unless the person rewords a chosen fact"
    )
    additions: list[AddedFact] = Field(
        [], max_length=MAX_CHOSEN, description="Leave out unless the person states a fact of their own"
    )
    wish: str | None = Field(
        None,
        max_length=1000,
        description="Leave out unless the person says how the narration shall be: make it funnier",
    )
    target_duration: float | None = Field(
        None, description="Leave out unless the person names a length; seconds"
    )
    level_shift: LevelShift = None
    language: LessonLanguage = None


@tool(
    schema=FactChoice,
    display="Noting the choice",
    reads=("facts", "confirmed"),
    writes=("confirmed",),
)
async def chooseFactsTool(args: FactChoice, call: Call) -> dict[str, Any]:  # noqa: N802 -- named like its like
    """Record which of the proposed facts the lesson tells, as the person's newest message says in words.

    The narration is then written by itself. Also for a change of an earlier choice: name every fact that the
    lesson shall tell. Never for a question, for small talk, or without the person's word.
    """
    proposed = (await call.artefact.stream_head("facts")).newest
    if not call.scope.has_answer or (proposed and proposed.batch == call.scope.run):
        raise Invalid(
            "no person has written since the facts were proposed",
            remedy="wait for their answer; never choose for them",
        )
    confirmed = (await call.artefact.stream_head("confirmed")).newest
    offered, earlier = _known_facts(proposed, confirmed)
    edits = [edit.model_dump() for edit in args.edits]
    facts = chosen_facts(args.fact_ids, edits, offered, earlier)
    added = [new_fact(one.concept, one.details) for one in args.additions]
    if not facts and added:
        return _offer(added)
    chosen = distinct([*facts, *added])
    if not chosen:
        raise Invalid(
            "a lesson tells at least one fact, and none is chosen",
            remedy=f"ask the person, or choose from {_ids_text(offered)}",
        )
    message = f"The lesson tells: {_names(chosen)}."
    given = args.model_dump(include={"target_duration", "level_shift", "language"}, exclude_none=True)
    choice = {"message": message, "narration": narration_arguments(args.wish or "", given)}
    return await confirm(call, chosen, message, choice=choice)


async def confirm(call: Call, facts: Sequence[Fact], message: str, **more: Any) -> dict[str, Any]:
    """Write the facts that a person has chosen as a new version of the confirmed ones."""
    kept = [fact.model_dump() for fact in facts]
    result = {"success": True, "message": message, "confirmedFacts": kept, "status": "facts_confirmed"} | more
    return await call.write("confirmed", {"facts": kept}, result=result)


def _offer(added: Sequence[Fact]) -> dict[str, Any]:
    """Return the result for facts that are only added; the graph offers them with the others."""
    facts = [fact.model_dump() for fact in added]
    return {"success": True, "message": f"To be offered: {_names(added)}.", "choice": {"additions": facts}}


def _known_facts(proposed: Version | None, confirmed: Version | None) -> tuple[list[Fact], list[Fact]]:
    """Return the offered facts and the earlier ones, each as the person confirmed it."""
    if proposed is None:
        raise Invalid("no facts are proposed yet", remedy="find facts first with extractFactsTool")
    kept = {fact.id: fact for fact in _facts(confirmed.data if confirmed else {}, "facts")}
    offered, earlier = (
        [kept.get(fact.id, fact) for fact in _facts(proposed.data, name)] for name in ("facts", "earlier")
    )
    return offered, [*earlier, *kept.values()]


def _facts(data: Mapping[str, Any], name: str) -> list[Fact]:
    return [Fact.model_validate(one) for one in data.get(name, ())]


def _names(facts: Sequence[Fact]) -> str:
    return ", ".join(fact.concept for fact in facts)


def _ids_text(facts: Sequence[Fact]) -> str:
    return ", ".join(fact.id for fact in facts)
