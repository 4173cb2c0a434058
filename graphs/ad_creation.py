"""Audio ads from a brief, refined by chat.

START → planner → approval → tool_executor → planner … → summarizer → END

The model searches voices and writes drafts of voices, music and sound effects with its tools. Every draft is
a version that a person may activate; nothing is overwritten.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, Final

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from callsheet import storage
from callsheet.graphs.loop import LoopWorkflow
from callsheet.nodes.ads.planning import AdPlanning
from callsheet.nodes.lean import LeanTool, choice, text
from callsheet.nodes.workflow import ArtefactSpec, LeanProfile, ModelView, TurnRules
from callsheet.providers import OFFLINE
from callsheet.state.ads import ad, brief
from callsheet.state.ads.ad import AdState
from callsheet.state.ads.brief import Brief
from callsheet.state.ads.foreign import client_name
from callsheet.state.ads.preflight import preflight_line
from callsheet.state.ads.timeline import placement_words
from callsheet.state.ads.undo import needed_versions
from callsheet.state.cards import Card, shorten
from callsheet.state.conversation import first_requests, turn_starts
from callsheet.state.plan import Step
from callsheet.state.state_block import StateLine, fit
from callsheet.state.versions import Version
from callsheet.state.workflow import DraftMade
from callsheet.storage.artefacts.artefacts import Artefact, StreamHead
from callsheet.storage.artefacts.recordings import RecordingRecord
from callsheet.tools import REGISTRY
from callsheet.tools.ads import drafts, undo, voices
from callsheet.tools.call import Scope

NO_DRAFT: Final = (
    "No draft was made yet. Call create_voice_draft with voices of <state>, create_music_draft and"
    " create_sfx_draft; if something essential is missing, say what."
)


class AdArtefact(ArtefactSpec[AdState]):
    """An ad: versions of voices, music and sound effects."""

    def id_of(self, state: AdState, thread_id: str) -> str:
        """Return the ad's id; the thread's where the state has none."""
        return state.get("ad_id") or thread_id

    def summary(self, stream: str, data: Mapping[str, Any]) -> str:
        """Return the one-line summary of a stream's data."""
        return ad.summary(stream, data)

    def card(self, state: AdState, newest: Mapping[str, Mapping[str, Any]]) -> Card:
        """Return the ad's name and its texts."""
        return ad.card(state, newest)

    async def needed_by_undo(self, artefact: Artefact, stream: str) -> Sequence[str]:
        """Return the version before the newest change of a stream, and those that undoing has restored."""
        return needed_versions((await artefact.newest_of([stream], undo.MAX_BACK))[stream].versions)


class AdModelView(ModelView[AdState]):
    """The ad's length and newest versions, and the brief."""

    def facts(self, state: AdState) -> Mapping[str, str]:
        """Return language, market and length of the ad."""
        known = brief_of(state)
        return {
            "language": state.get("language") or (known["language"] if known else "") or "english",
            "market": state.get("market") or (known["market"] if known else "US"),
            "spotSeconds": f"{spot_s(state):g}",
            **({"client": name} if known and (name := client_name(known["clientDescription"])) else {}),
        }

    def brief_texts(self, state: AdState) -> tuple[str, str]:
        """Return the person's texts since the newest brief: of a brief, client, format and context."""
        texts = [str(one.text) for one in state.get("messages", ()) if isinstance(one, HumanMessage)]
        if known := brief_of(state):
            opening = brief.message(known)
            later = [*takewhile(lambda text: text != opening, reversed(texts))][::-1]
            fields = (known["clientDescription"], known["format"], known["additionalContext"])
            texts = ["\n".join(fields), *later]
        return "\n".join(texts[:-1]), "".join(texts[-1:])

    def pinned_text(self, state: AdState, messages: Sequence[AnyMessage]) -> str:
        """Return the newest brief, else the first requests."""
        known = brief_of(state)
        return brief.message(known) if known else super().pinned_text(state, messages)

    def state_block(self, state: AdState, scope: Scope, heads: Mapping[str, StreamHead]) -> str:
        """Return the ad's length, newest versions and the words that fit; voices while none is cast."""
        del state
        return self.block(scope, heads, None)

    def block(self, scope: Scope, heads: Mapping[str, StreamHead], rendering: RecordingRecord | None) -> str:
        """Return the state block; a rendering of the newest versions gives measured times and its checks."""
        newest = {name: head.newest for name, head in heads.items() if head.newest}
        active = {name: head.active for name, head in heads.items()}
        locked = frozenset().union(*(head.locked for head in heads.values()))
        spot = drafts.spot_s(scope)
        data = {name: version.data for name, version in newest.items()}
        language = drafts.script_language(data.get("voices", {}), scope)
        effects = data.get("sfx", {}).get("soundFxPrompts", ())
        lines = [StateLine(ad.heading(spot, language, scope.facts["market"], effects))]
        if newest:
            speech_s = rendering["details"]["speechSeconds"] if rendering else {}
            timed = ad.timeline(data, language=language, spot_s=spot, speech_s=speech_s)
            cast = {str(one["voiceId"]) for one in data.get("voices", {}).get("voiceTracks", ())}
            known = {name: voice.words() for name in cast if (voice := voices.find(name))}
            lines += [*ad.stream_lines(newest, active, locked, known), StateLine(ad.length_line(timed))]
        if rendering:
            lines.append(StateLine(preflight_line(rendering["details"], rendering["size"])))
        if "voices" not in newest:
            offered = voices.casting(scope.facts["language"], scope.facts["market"])
            lines += ad.casting_lines({one.id: one.words() for one in offered}, scope.facts["language"])
        return fit(lines)

    def opening(self, state: AdState) -> str | None:
        """Return the user message for the newest brief, for a run without a message."""
        known = brief_of(state)
        return brief.message(known) if known else None


class AdTurnRules(TurnRules[AdState]):
    """A turn makes the drafts of a brief, and says what the last script lacks."""

    def nudge(self, state: AdState, history: Sequence[AnyMessage], created: Sequence[DraftMade]) -> str:
        """Ask for the drafts of a brief that has none; a model may still say what is missing."""
        known = brief_of(state)
        starts = turn_starts(history)
        if created or not known or not starts or history[starts[-1]].text != brief.message(known):
            return ""
        return NO_DRAFT

    def describe_step(self, state: AdState, step: Step, newest: Mapping[str, Version | None]) -> str:
        """Return who says what, the description of the music, or each effect with its place and length."""
        params = step["params"]
        if step["tool"] == "create_voice_draft":
            return "\n".join(map(_track_words, params.get("tracks", ())))
        if step["tool"] == "create_sfx_draft":
            return "\n".join(map(_effect_words, params.get("prompts", ()))) or "none"
        return super().describe_step(state, step, newest)

    def change_name(self, stream: str, output: Mapping[str, Any], newest: Version | None) -> str:
        """Return the stream's name for people."""
        del output, newest
        return ad.TITLES[stream]

    def closing_notes(self, state: AdState) -> Sequence[str]:
        """Name what the person wants spoken and the turn's last script lacks, and what it has of its own."""
        messages = state.get("messages", ())
        start = turn_starts(messages)[-1:]
        results = [
            json.loads(one.text)
            for one in messages[start[0] if start else 0 :]
            if isinstance(one, ToolMessage) and one.name == "create_voice_draft"
        ]
        written = [result for result in results if "versionId" in result]
        last = written[-1] if written else {}
        remarks = (
            ("The script does not say", last.get("missing")),
            ("Neither the brief nor the conversation has", last.get("foreign")),
        )
        return [f"{remark}: {', '.join(parts)}" for remark, parts in remarks if parts] + _undone(state)


def _undone(state: AdState) -> list[str]:
    """Name the requests whose changes the turn took back; the offline model's own words do."""
    results = [] if state.get("provider") == OFFLINE else state.get("results", ())
    undone = [one["output"].get("undone") for one in results if one["tool"] == "undo_change"]
    return [f"Taken back is the change of “{shorten(request)}”" for request in undone if request]


def _track_words(track: Mapping[str, Any]) -> str:
    voice = voices.find(track["voiceId"])
    name = voice.words() if voice else track["voiceId"]
    pace = f", speed {track['speed']:g}" if track.get("speed", 1) != 1 else ""
    return f"{name}{pace}: “{track['text']}”"


def _effect_words(effect: Mapping[str, Any]) -> str:
    place = placement_words(effect.get("placement") or {"type": "end"})
    return f"{effect['description']}, {place}, {effect.get('duration') or ad.DEFAULT_SFX_S:g} s"


class LeanAd(LeanProfile):
    """The whole script, or one track of it; the music."""

    async def tools(self, state: AdState, scope: Scope) -> list[LeanTool]:
        """Return the tools, with fitting voices and the tracks of the newest script."""
        artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
        newest = (await artefact.stream_head("voices")).newest
        tracks: Sequence[Mapping[str, Any]] = newest.data["voiceTracks"] if newest else ()
        offered = voices.casting(scope.facts["language"], scope.facts["market"])
        voice = choice(dict.fromkeys([*(one["voiceId"] for one in tracks), *(one.id for one in offered)]))
        words = text("All words that are spoken, and nothing else")
        prompt = {"prompt": text("Genre, mood, tempo and instruments, in English")}
        script = LeanTool(
            "write_script", "Write what a voice says.", {"voice": voice, "text": words}, _SCRIPT, _script
        )
        if tracks:
            track = choice([one["id"] for one in tracks])
            fields = {"track": track, "voice": voice, "text": words}
            script = LeanTool(
                "write_track", "Write one track again.", fields, _SCRIPT, partial(_script_with_track, tracks)
            )
        music = LeanTool("write_music", "Describe the music.", prompt, "create_music_draft")
        return [music] if await self.ends_when(state, scope) else [script, music]

    async def ends_when(self, state: AdState, scope: Scope) -> str:
        """Return that an ad with a brief and a script ends without music only if the brief wants none."""
        artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
        heads = await artefact.stream_heads(["voices", "music"])
        has_script_alone = heads["voices"].newest and not heads["music"].newest
        return _NO_MUSIC if brief_of(state) and has_script_alone else ""


_NO_MUSIC: Final = "Only if the brief wants no music: say what was done."
_SCRIPT: Final = "create_voice_draft"


def _script(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"tracks": [{"voiceId": given.get("voice"), "text": given.get("text")}]}


def _script_with_track(tracks: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the script with one track in other words; the others stay."""
    kept = ("voiceId", "text", "playAfter", "overlap", "speed")
    new = {"voiceId": given.get("voice"), "text": given.get("text")}
    return {
        "tracks": [
            {
                **{name: one[name] for name in kept if name in one},
                **(new if one["id"] == given.get("track") else {}),
            }
            for one in tracks
        ]
    }


_VIEW: Final = AdModelView()


class AdCreation(LoopWorkflow[AdState]):
    """Audio ads from briefs."""

    name = "ad_creation"
    title = "audio ads"
    about = "A brief becomes a script, cast with real voices, with music and sound effects."
    examples = (
        "30 seconds for Miel, a bakery in Lyon. Miel bakes sourdough bread at four every morning.",
        "20 seconds for Harbour Bikes, e-bikes by the hour in Porto. First hour free until 30 June.",
    )
    state = AdState
    artefact = AdArtefact("ad", ad.STREAMS)
    view = _VIEW
    planning = AdPlanning(_VIEW.block)
    turn = AdTurnRules(has_variations=True)
    lean = LeanAd()


def brief_of(state: AdState) -> Brief | None:
    """Return the brief from any shape that clients put into the state; raises `Invalid`."""
    return brief.parse(state["brief"]) if state.get("brief") else None


def spot_s(state: AdState) -> float:
    """Return the spot's seconds: the brief's, or else the last ones mentioned before the first tool call."""
    if known := brief_of(state):
        return known["duration"]
    mentioned = [brief.mentioned_seconds(one.text) for one in _requests(state)]
    return next((length_s for length_s in reversed(mentioned) if length_s), brief.DEFAULT_SPOT_S)


def _requests(state: AdState) -> list[HumanMessage]:
    """Return a person's messages before the first tool call."""
    return first_requests(state.get("messages", ()))


WORKFLOW: Final = AdCreation(REGISTRY.of("ad"))
graph = WORKFLOW.graph
