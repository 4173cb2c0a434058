"""Materials that are read once: the same words of the same owner give what was found in them before (B63)."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import storage
from state.facts import Fact
from state.languages import detected
from state.plan import dumped
from storage import extractions
from tools import fact_finding, structured
from tools.call import Call
from tools.fact_finding import Extraction, Report, Wish
from tools.sources import Source


async def remembered(source: Source, wish: Wish, call: Call, report: Report) -> Extraction:
    """Return the facts of a material, found now or, by the same model and for the same wish, before.

    Raises what `fact_finding.facts_of` raises. What was found before costs nothing.
    """
    began = time.monotonic()
    opened, owner, model = await storage.current(), call.scope.owner, call.scope.model
    spec = structured.named(model, detected(source.text) or "english")
    words = dumped([source.digest, spec, asdict(wish)])
    question = hashlib.blake2b(words.encode(), digest_size=16).hexdigest()
    known = await extractions.find(opened, owner, question)
    if known:
        return replace(_extraction(known), cost=0.0, duration=round(time.monotonic() - began, 3), cached=True)
    found = await fact_finding.facts_of(source.text, model=model, wish=wish, report=report)
    if found.facts:
        facts = [fact.model_dump() for fact in found.facts]
        await extractions.keep(opened, owner, question, {**asdict(found), "facts": facts})
    return found


def _extraction(known: Mapping[str, Any]) -> Extraction:
    facts = tuple(Fact.model_validate(one) for one in known["facts"])
    return Extraction(**{**known, "facts": facts, "warnings": tuple(known["warnings"])})
