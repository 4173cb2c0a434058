"""The score of the offline model on sentences that were written before its rules, as it is.

A case about an ad goes through the compiled graph on the embedded Valkey, with the offline model: the brief,
what was said before, edits made by hand, and the sentence itself. One about a lesson asks the offline model,
or what reads a choice of facts. `python -m bench.sentences ID…` shows what went wrong with the named cases;
`--list` shows it for every failing one.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import storage as store
from bench._pages import scored
from graphs import ad_creation
from server.jobs import Chat, Generate, carried_out, chat_job, generate_job, terms
from server.worker import Worker, working
from state import ad
from state.context import Context
from state.errors import CallsheetError
from state.owners import LOCAL
from storage.artefacts import Artefact, NewVersion
from storage.connection import Storage, connect
from tests import lesson_score, page_score
from tests.sentence_score import Case, Scored, load, score, summary
from tools import guard, voices
from tools.terms import ANY, House, Terms

Results = Sequence[tuple[Scored, Sequence[str]]]
"""Cases with what was expected of each and did not happen."""
_LESSONS: Final = ("fact_narration.jsonl", "fact_choices.jsonl")
_LIST: Final = "--list"
_OFFLINE: Final = Context(provider="offline")


def main(*words: str) -> int:
    """Print the table of all cases, or of those named, and the failures that were asked for."""
    named = [word for word in words if word != _LIST]
    ads, edits = load(), page_score.load()
    lessons = [one for name in _LESSONS for one in lesson_score.load(name)]
    every: list[Scored] = [*ads, *edits, *lessons]
    if unknown := sorted(set(named) - {case.id for case in every}):
        print(f"no case {unknown[0]!r} in tests/sentences")
        return 2
    wanted = [case for case in ads if not named or case.id in named]
    pages = [case for case in edits if not named or case.id in named]
    for title, results in zip(
        ("ad_creation", "page_builder"), asyncio.run(_scored(wanted, pages)), strict=True
    ):
        _print(title, results, every=bool(words))
    told = [(case, case.failures()) for case in lessons if not named or case.id in named]
    _print("fact_narration", told, every=bool(words))
    return 0


def _print(title: str, results: Results, *, every: bool) -> None:
    if not results:
        return
    print(f"-- {title}")
    for case, failures in results if every else ():
        for failure in failures:
            print(f"{case.id}: {failure}")
    print(summary(results))


async def _scored(ads: list[Case], pages: list[page_score.Case]) -> tuple[Results, Results]:
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as folder:
        async with (
            connect(data_dir=Path(folder)) as opened,
            working(opened, {"ad_creation": ad_creation.graph}, terms(opened, lease_s=10)) as worker,
        ):
            store.use(opened)
            # A sentence is no turn of one person: together they are more calls than anybody may make.
            guard.house = House({ANY: Terms(calls=0)})
            try:
                played = [(case, await _played(case, opened, worker)) for case in ads]
                return played, await scored(pages, opened)
            finally:
                guard.house = House()
                store.use(None)


async def _played(case: Case, storage: Storage, worker: Worker) -> list[str]:
    try:
        return await _Sitting(case, storage, worker).failures()
    except (CallsheetError, LookupError) as error:
        # What is refused, or leaves out what was asked for, has failed the sentence; a bug ends the bench.
        return [f"{type(error).__name__}: {error}"]


class _Sitting:
    """One case being played."""

    def __init__(self, case: Case, storage: Storage, worker: Worker) -> None:
        self._case = case
        self._storage = storage
        self._worker = worker
        self._artefact = Artefact(storage, "ad", case.id, LOCAL)

    async def failures(self) -> list[str]:
        """Return what was expected and did not happen."""
        case = self._case
        if case.say is None:
            reply = await self._generate()
            return score(case, {}, await self._state(reply), reply["created"], reply["message"])
        reply = await self._generate()
        for sentence in case.said:
            reply = await self._chat(sentence, {})
        for stream, data in case.outside.items():
            await self._artefact.create_version(NewVersion(stream, data, "local", f"by-hand-{stream}"))
        before = await self._state(reply)
        reply = await self._chat(case.say, case.now)
        return score(case, before, await self._state(reply), reply["created"], reply["message"])

    async def _generate(self) -> dict[str, Any]:
        body = self._case.brief
        asked = Generate(
            self._case.id,
            body["brief"],
            language=body.get("language"),
            market=body.get("market"),
            context=_OFFLINE,
        )
        return await carried_out(self._worker, self._storage, await generate_job(self._storage, asked))

    async def _chat(self, sentence: str, now: Mapping[str, Any]) -> dict[str, Any]:
        asked = Chat(
            self._case.id,
            sentence,
            language=now.get("language"),
            duration=now.get("spot_s"),
            context=_OFFLINE,
        )
        job = await chat_job(self._worker, self._storage, asked)
        return await carried_out(self._worker, self._storage, job)

    async def _state(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        streams = await self._artefact.streams(ad.STREAMS)
        meta = await self._artefact.meta()
        state: dict[str, Any] = {
            name: {
                "id": stream.versions[-1].id,
                "data": stream.versions[-1].data,
                "versions": {version.id: version.data for version in stream.versions},
            }
            for name, stream in streams.items()
            if stream.versions
        }
        found = voices.search(meta.get("language", "english"), count=50)
        return state | {"timeline": reply["timeline"], "catalogue": [voice.public() for voice in found]}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
