"""The tool that takes back the last change of an audio ad."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.ads import ad
from callsheet.state.ads.undo import LastChange, last_change
from callsheet.state.cards import shorten
from callsheet.state.errors import Busy, Conflict, Gone, Invalid
from callsheet.storage.artefacts.artefacts import Artefact, Stream
from callsheet.tools.ads.drafts import script_language, spot_s
from callsheet.tools.call import Call, VersionDraft
from callsheet.tools.registry import tool

MAX_BACK: Final = 100
"""Newest versions of a stream that an undo looks at."""
MAX_TRIES: Final = 20
"""Attempts at an undo before it gives up to concurrent changes."""
_NO_EFFECTS: Final[Mapping[str, Any]] = {"soundFxPrompts": []}


class UndoChange(BaseModel):
    """Arguments of `undo_change`."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    adId: Annotated[str, Field(description="The ad this conversation is about", min_length=1, max_length=255)]
    streams: list[ad.Stream] | None = Field(
        None,
        description="Leave out to take back all of the last change; else only that of these parts",
        max_length=len(ad.STREAMS),
    )


@tool(
    schema=UndoChange,
    display="Taking a change back",
    reads=ad.STREAMS,
    writes=ad.STREAMS,
    writes_some=True,
    subject="adId",
)
async def undo_change(args: UndoChange, call: Call) -> dict[str, Any]:
    """Take back the ad's last change: the parts that it changed become as they were, as new drafts.

    Called again, it goes further back; earlier versions stay. A request that changed nothing is no change:
    tell the person which request's change was taken back.
    """
    names = args.streams or ad.STREAMS
    for _ in range(MAX_TRIES):
        heads = await call.artefact.stream_heads(names)
        streams, change = await _last_change(call.artefact, names)
        back = change.before
        restored = {name: one.data for name, one in back.items() if one}
        if "sfx" in back and back["sfx"] is None:
            restored["sfx"] = _NO_EFFECTS
        if not restored:
            raise Invalid(
                f"there is nothing to undo: there was no {ad.TITLES[next(iter(back))]} before",
                remedy="say what it shall be instead",
            )
        drafts = [
            VersionDraft(name, data, one.id if (one := back[name]) else None, heads[name], "undo")
            for name, data in restored.items()
        ]
        current = {name: one.data for name, stream in streams.items() if (one := stream.newest())} | restored
        timeline = ad.timeline(
            current,
            language=script_language(current.get("voices", {}), call.scope),
            spot_s=spot_s(call.scope),
        )
        length = {key: timeline[key] for key in ("spotSeconds", "durationSeconds", "fits", "short")}
        about = {"undone": change.request, "message": _message(change)}
        result = {"status": "draft", **about, "timeline": length}
        try:
            return await call.write_all(drafts, result=result)
        except Conflict:
            continue
    raise Busy(
        f"concurrent edits changed the ad {call.scope.artefact!r} each time", remedy="try again in a moment"
    )


TOOLS: Final = (undo_change,)


async def _last_change(
    artefact: Artefact, names: Sequence[ad.Stream]
) -> tuple[dict[str, Stream], LastChange]:
    """Return the ad's streams, and the last change of the named ones; raises as `last_change`."""
    numbers = await asyncio.gather(*map(artefact.removed_up_to, names))
    removed: dict[str, int] = dict(zip(names, numbers, strict=True))
    streams = await artefact.newest_of(ad.STREAMS, MAX_BACK)
    try:
        return streams, last_change({name: streams[name].versions for name in names}, removed)
    except Gone:
        if not any(streams[name].older for name in names):
            raise
    streams = await artefact.streams(ad.STREAMS)
    return streams, last_change({name: streams[name].versions for name in names}, removed)


def _message(change: LastChange) -> str:
    """Return what was taken back, and what stays because there was none before."""
    back = change.before
    again = [
        f"{ad.TITLES[name]} as in {one.id}" if one else "no sound effects"
        for name, one in back.items()
        if one or name == "sfx"
    ]
    first = [ad.TITLES[name] for name, one in back.items() if not one and name != "sfx"]
    stays = f"; there was no {' and no '.join(first)} before" if first else ""
    request = f" (“{shorten(change.request)}”)" if change.request else ""
    return f"The last change{request} is taken back: {', '.join(again)}{stays}"
