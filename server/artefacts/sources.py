"""The chain between artefacts: one is made from another by one request, and both keep a record of it.

The new artefact's record has its sources, set once, with the request that made it; the source's record has a
field for each artefact that was made from it. Both are safe to write twice.
"""

import asyncio
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

from callsheet.server.artefacts.schemas import ArtefactRef, ArtefactSource
from callsheet.server.artefacts.service import ArtefactService, claim
from callsheet.server.http.requests import body_digest, checked_idempotency_key, identifier
from callsheet.state.errors import Conflict, Invalid, Missing
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import read_time_ms
from callsheet.storage.runs.idempotency import reused_key
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

_SOURCES: Final = "sources"
_USE: Final = "use:"
MAX_USES: Final = 200
"""Things made from one source that its record names."""


class _SourceRecord(TypedDict):
    request: str
    items: list[ArtefactSource]


_RECORD: Final = TypeAdapter(_SourceRecord)


async def find_source(storage: Storage, kind: str, name: str, owner: str) -> Artefact:
    """Return the owner's artefact that another one is to be made from; raise `Missing` for none."""
    artefact = Artefact(storage, kind, identifier(name, f"{kind} id"), owner)
    if (await artefact.meta()).get("owner") != owner:
        raise Missing(f"there is no {kind} {name!r}", remedy=f"list them with GET /api/artefacts/{kind}")
    return artefact


async def new_id(storage: Storage, kind: str, owner: str, given: str | None, key: str | None) -> str:
    """Return the id of a new artefact: the given one, else always the same for one idempotency key."""
    if given:
        return given
    if checked_idempotency_key(key) is None:
        return f"{kind}-{uuid.uuid4().hex[:10]}"
    derived = await threads.derived_id(storage, owner, json.dumps(["made", kind, key]))
    return f"{kind}-{derived.replace('-', '')[:20]}"


def sources_fact(sources: Sequence[ArtefactSource], key: str | None, body: BaseModel) -> dict[str, str]:
    """Return the field of a new artefact's record, which was asked for by `body` with an idempotency key."""
    name = hashlib.sha256(key.encode()).hexdigest()[:32] if key else uuid.uuid4().hex
    request = f"{name}-{body_digest(body)[:32]}"
    return {_SOURCES: json.dumps({"request": request, "items": sources}, ensure_ascii=False)}


def require_unused(
    artefact: Artefact, meta: Mapping[str, str], fact: Mapping[str, str], key: str | None
) -> None:
    """Raise `Conflict` if there is such an artefact already, unless the same request made it."""
    if not meta.get("owner"):
        return
    # A record of an earlier version has no digest of the body.
    stored, _, stored_body = json.loads(meta.get(_SOURCES) or "{}").get("request", "").partition("-")
    name, _, body = json.loads(fact[_SOURCES])["request"].partition("-")
    if stored != name:
        raise Conflict(f"{artefact.kind} {artefact.id!r} exists already", remedy="choose another id, or none")
    if stored_body not in {"", body}:
        raise reused_key(key)


async def claim_new(
    service: ArtefactService, storage: Storage, thread: Thread, fact: Mapping[str, str], key: str | None
) -> Artefact:
    """Create the record of a new artefact with its sources; raise `Conflict` for one of another request."""
    artefact = service.artefact(storage, thread)
    require_unused(artefact, await artefact.meta(), fact, key)
    await claim(storage, thread, fact)
    require_unused(artefact, await artefact.meta(), fact, key)
    return artefact


async def record_use(source: Artefact, storage: Storage, kind: str, name: str) -> None:
    """Record on the source that an artefact was made from it.

    Of a source with `MAX_USES` records those are dropped whose artefacts are gone, else the oldest ones.
    """
    meta = await source.meta()
    fields = _use_fields(meta)
    if len(fields) >= MAX_USES:
        kept = {f"{_USE}{one.kind}:{one.id}" for one in await use_list(source, storage, meta)}
        gone = [field for field in fields if field not in kept]
        await source.drop_facts(gone or fields[: len(fields) - MAX_USES + 1])
    await source.set_facts({f"{_USE}{kind}:{name}": str(await read_time_ms(storage.redis))})


def _use_fields(meta: Mapping[str, str]) -> list[str]:
    """Return the fields of a record that name what was made of it, oldest first."""

    def age_of(field: str) -> tuple[int, str]:
        # An imported record may hold anything.
        return (int(meta[field]) if meta[field].isdecimal() else 0, field)

    return sorted((field for field in meta if field.startswith(_USE)), key=age_of)


def source_list(meta: Mapping[str, str]) -> list[ArtefactSource]:
    """Return the sources in an artefact's record."""
    items: list[ArtefactSource] = json.loads(meta.get(_SOURCES) or "{}").get("items", [])
    return items


async def use_list(artefact: Artefact, storage: Storage, meta: Mapping[str, str]) -> list[ArtefactRef]:
    """Return what was made from an artefact, still exists and names it, oldest first."""
    return [ArtefactRef(kind=one.kind, id=one.id) for one, _ in await _uses(artefact, storage, meta)]


async def used_versions(
    artefact: Artefact, storage: Storage, meta: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return the versions of an artefact that other ones were made from, each with its stream."""
    uses = [source for _, named in await _uses(artefact, storage, meta) for source in named]
    return [item for source in uses for item in source.get("versions", {}).items()]


async def _uses(
    artefact: Artefact, storage: Storage, meta: Mapping[str, str]
) -> list[tuple[Artefact, list[ArtefactSource]]]:
    """Return what was made from an artefact, oldest first, each with its sources that are the artefact."""
    places = [field.removeprefix(_USE).partition(":") for field in _use_fields(meta)]
    results = [Artefact(storage, kind, name, meta["owner"]) for kind, _, name in places]
    records = await asyncio.gather(*(one.meta() for one in results))
    uses = []
    for one, record in zip(results, records, strict=True):
        name = (artefact.kind, artefact.id)
        named = [source for source in source_list(record) if (source["kind"], source["id"]) == name]
        # A copy of an artefact has its record, and nothing was made from the copy.
        if named and record.get("owner") == meta["owner"]:
            uses.append((one, named))
    return uses


def check_record(facts: Mapping[str, str]) -> None:
    """Raise `Invalid` for the record of an imported artefact whose sources cannot be read."""
    try:
        _RECORD.validate_json(facts.get(_SOURCES, '{"request": "", "items": []}'))
    except ValueError as error:
        raise Invalid("the sources cannot be read", remedy="export the thread again") from error
