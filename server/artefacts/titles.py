"""Titles of conversations, and the search in them: from what a workflow made, else the first message."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from callsheet.server.http.context import AppContext
from callsheet.server.langgraph.threads import newest_values
from callsheet.state.cards import Card, search_words, shorten
from callsheet.state.entered import entered_text
from callsheet.storage.artefacts import cards
from callsheet.storage.artefacts.cards import ThreadCard
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

TITLE: Final = "title"
"""Field of a thread's metadata: the title that a person gave it, which comes before any other."""
_MAX_WORDS: Final = 12_000
"""Characters of a conversation that a search looks at."""


async def titles(ctx: AppContext, owner: str, ids: Sequence[str]) -> dict[str, str]:
    """Return the titles of the owner's threads by id; else the id of what each is about."""
    records = [one for one in await threads.get_many(ctx.storage, ids, owner) if one]
    shown = await read_cards(ctx, records, with_words=False)
    return {record.id: card.title for record, card in zip(records, shown, strict=True)}


async def title_of(ctx: AppContext, thread: Thread) -> str:
    """Return the title of a thread; else the id of what it is about."""
    of_thread = await titles(ctx, thread.owner, [thread.id])
    return of_thread.get(thread.id) or thread.artefact.partition(":")[2] or thread.id


async def read_cards(ctx: AppContext, records: Sequence[Thread], *, with_words: bool) -> list[ThreadCard]:
    """Return title and words of each thread, read again only if it or its artefact has changed."""
    kept = await cards.read(ctx.storage, records, with_words=with_words)
    shown = await asyncio.gather(
        *(_build(ctx, record) for record, card in zip(records, kept, strict=True) if card is None)
    )
    built = iter(shown)
    return [
        _with_given_title(record, card or next(built)) for record, card in zip(records, kept, strict=True)
    ]


def _with_given_title(record: Thread, card: ThreadCard) -> ThreadCard:
    given = record.metadata.get(TITLE)
    title = shorten(given) if isinstance(given, str) else ""
    name = title or card.title or record.artefact.partition(":")[2] or record.id
    return ThreadCard(card.stamp, name, card.words)


async def _build(ctx: AppContext, record: Thread) -> ThreadCard:
    # Read first: a change that comes in between has the card read again.
    [stamp] = await cards.stamps(ctx.storage, [record])
    values = await newest_values(ctx, record)
    card = await _card(ctx, record, values)
    title = card.title or message_title(values)
    parts = [title, *card.texts, *_requests(values)]
    built = ThreadCard(stamp, title, search_words(parts, _MAX_WORDS))
    await cards.keep(ctx.storage, record, built)
    return built


async def _card(ctx: AppContext, record: Thread, values: Any) -> Card:
    spec, artefact = ctx.workflows.specs.get(record.graph), cards.artefact_of(ctx.storage, record)
    if spec is None:
        return Card()
    newest: dict[str, Mapping[str, Any]] = {}
    if artefact is not None:
        streams = await spec.artefact.card_streams(artefact)
        heads = await artefact.stream_heads(streams)
        newest = {name: head.newest.data for name, head in heads.items() if head.newest}
    state = values if isinstance(values, Mapping) else {}
    # In a thread, because a page may have hundreds of elements.
    return await asyncio.to_thread(spec.artefact.card, state, newest)


def message_title(values: Any, *, newest: bool = False) -> str:
    """Return the first message of a state or input, or its `newest`, in one line; empty without messages."""
    messages = values.get("messages") if isinstance(values, Mapping) else None
    if not isinstance(messages, list) or not messages:
        return ""
    return shorten(_text(messages[-1 if newest else 0]))


def _requests(values: Any) -> list[str]:
    """Return what people wrote, oldest first."""
    messages = values.get("messages") if isinstance(values, Mapping) else None
    people = {"human", "user"}
    return [
        _text(one)
        for one in (messages if isinstance(messages, list) else [])
        if (_field(one, "type") or _field(one, "role")) in people
    ]


def _field(message: Any, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def _text(message: Any) -> str:
    if isinstance(message, str):
        return message
    entered = entered_text({"additional_kwargs": _field(message, "additional_kwargs")})
    content = entered or _field(message, "content")
    if isinstance(content, list):
        parts = (part.get("text", "") if isinstance(part, Mapping) else part for part in content)
        return " ".join(str(part) for part in parts)
    return str(content or "")
