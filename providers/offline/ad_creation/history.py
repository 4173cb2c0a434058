"""What an ad holds now and held before, rebuilt from the messages alone.

A version is never overwritten, so what any message says of one stays true; the newest state the tool told
is the truth about what is current, for people edit outside the chat too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from providers.offline.ad_creation.conversation import Conversation, Turn
from providers.offline.exchange import Exchange
from state.ad import DEFAULT_SFX_S, STREAMS, Stream, track_list

TOOL_OF: Mapping[Stream, str] = {
    "voices": "create_voice_draft",
    "music": "create_music_draft",
    "sfx": "create_sfx_draft",
}
"""The tool that writes a stream."""
STREAM_OF: Mapping[str, Stream] = {tool: stream for stream, tool in TOOL_OF.items()}
Data = Mapping[str, Any]
"""What a version holds, in its stored form."""
Change = Mapping[Stream, tuple[str | None, str]]
"""What one turn did: per stream the version before and the version it made."""


@dataclass(frozen=True)
class Ad:
    """An ad as it stands, and every version of it whose content is known."""

    language: str
    spot_s: float
    newest: Mapping[Stream, str] = field(default_factory=dict)
    """Current version by stream; a stream that was never written is absent."""
    held: Mapping[Stream, Mapping[str, Data]] = field(default_factory=dict)
    """Content by stream and version, oldest first."""
    tracks: tuple[Data, ...] = ()
    music: Data | None = None
    effects: tuple[Data, ...] = ()
    voices: Mapping[str, Data] = field(default_factory=dict)
    """What is known of voices, by id: name, gender, accent, style as far as published."""
    told: bool = False
    """Whether the state tool said so in this turn, rather than the messages alone."""

    def data(self, stream: Stream) -> Data:
        """Return what `stream` holds, in its stored form; empty when there is nothing."""
        if stream == "voices":
            return {"voiceTracks": list(self.tracks)}
        if stream == "sfx":
            return {"soundFxPrompts": list(self.effects)}
        return self.music or {}

    def holding(self, stream: Stream, data: Data) -> "Ad":
        """Return this ad with `data` in `stream`."""
        if stream == "voices":
            return replace(self, tracks=tuple(data.get("voiceTracks", ())))
        if stream == "sfx":
            return replace(self, effects=tuple(data.get("soundFxPrompts", ())))
        return replace(self, music=data or None)

    def name(self, voice_id: str) -> str:
        """Return the name people know a voice by; the id where it has none."""
        return str(self.voices.get(voice_id, {}).get("name") or voice_id)

    @property
    def empty(self) -> bool:
        """Whether nothing was ever written."""
        return not self.newest


def current(conversation: Conversation) -> Ad:
    """Return the ad as it stands: what the state tool said in this turn, else what the messages show."""
    held, newest = _held(conversation.turns)
    ad = Ad(conversation.language, conversation.spot_s, newest, held, voices=_voices(conversation.turns))
    told = [one for one in conversation.turn.results("get_current_state") if not one.failed]
    if told:
        ad = replace(ad, newest=_newest(told[-1].result or {}), told=True)
    for stream, version in ad.newest.items():
        ad = ad.holding(stream, held.get(stream, {}).get(version, {}))
    return ad


def _held(
    turns: Sequence[Turn],
) -> tuple[dict[Stream, dict[str, Data]], dict[Stream, str]]:
    held: dict[Stream, dict[str, Data]] = {stream: {} for stream in STREAMS}
    newest: dict[Stream, str] = {}
    for exchange in (one for turn in turns for one in turn.exchanges):
        stream = STREAM_OF.get(exchange.name)
        if stream and exchange.version:
            held[stream].setdefault(exchange.version, stored(stream, exchange.args))
            newest[stream] = exchange.version
        elif exchange.name == "get_current_state" and exchange.result and not exchange.failed:
            _learn(held, exchange.result)
            newest |= _newest(exchange.result)
    return {stream: _in_order(versions) for stream, versions in held.items()}, newest


def _learn(held: dict[Stream, dict[str, Data]], result: Data) -> None:
    for stream in STREAMS:
        entry = result.get(stream)
        if not isinstance(entry, Mapping):
            continue
        for one in (*entry.get("versions", ()), entry):
            if isinstance(one, Mapping) and isinstance(one.get("data"), Mapping):
                # The tool's word beats the arguments: it may have tightened them.
                held[stream][str(one.get("versionId"))] = one["data"]


def _newest(result: Data) -> dict[Stream, str]:
    return {
        stream: str(result[stream]["versionId"])
        for stream in STREAMS
        if isinstance(result.get(stream), Mapping) and result[stream].get("versionId")
    }


def _in_order(versions: Mapping[str, Data]) -> dict[str, Data]:
    return {key: versions[key] for key in sorted(versions, key=number)}


def number(version: str) -> int:
    """Return the number of a version ("v12" → 12); 0 when it has none."""
    digits = version.lstrip("v")
    return int(digits) if digits.isdecimal() and len(digits) < 10 else 0  # noqa: PLR2004 - no longer number is one


def stored(stream: Stream, args: Data) -> Data:
    """Return the stored form of a draft tool's arguments."""
    if stream == "voices":
        return {"voiceTracks": track_list(args.get("tracks", ()))}
    if stream == "sfx":
        return {"soundFxPrompts": [_effect(one) for one in args.get("prompts", ())]}
    return {
        "musicPrompt": args.get("prompt", ""),
        "musicProvider": args.get("provider") or "loudly",
        "duration": args.get("duration"),
    }


def _effect(prompt: Data) -> Data:
    return {
        "description": prompt.get("description", ""),
        "placement": prompt.get("placement") or {"type": "end"},
        "duration": prompt.get("duration") or DEFAULT_SFX_S,
    }


def _voices(turns: Sequence[Turn]) -> dict[str, Data]:
    found: dict[str, Data] = {}
    for turn in turns:
        for exchange in turn.results("search_voices"):
            for voice in offered(exchange):
                found[str(voice["id"])] = voice
    return found


def offered(search: Exchange) -> list[Data]:
    """Return the voices a search found, best first."""
    voices = (search.result or {}).get("voices", ())
    return [one for one in voices if isinstance(one, Mapping) and one.get("id")] if not search.failed else []


def heard(ad: Ad) -> set[str]:
    """Return every voice that was ever cast in a known version: whoever is replaced was rejected."""
    versions = ad.held.get("voices", {}).values()
    return {str(track.get("voiceId")) for data in versions for track in data.get("voiceTracks", ())}


@dataclass(frozen=True)
class Step:
    """One way through the history: undo or redo, how often, and of one stream or all."""

    kind: Literal["undo", "redo"]
    times: int = 1
    stream: Stream | None = None


@dataclass
class Stacks:
    """What can be undone and redone, newest last."""

    done: list[dict[Stream, tuple[str | None, str]]] = field(default_factory=list)
    undone: list[dict[Stream, tuple[str | None, str]]] = field(default_factory=list)

    def take(self, step: Step) -> list[dict[Stream, tuple[str | None, str]]]:
        """Move what `step` undoes or redoes to the other stack and return it, first to last."""
        source, target = (self.done, self.undone) if step.kind == "undo" else (self.undone, self.done)
        taken = []
        for _ in range(step.times):
            at = next((i for i in range(len(source) - 1, -1, -1) if step.stream in {None, *source[i]}), None)
            if at is None:
                break
            change = source.pop(at)
            if step.stream and len(change) > 1:
                source.insert(at, {key: pair for key, pair in change.items() if key != step.stream})
                change = {step.stream: change[step.stream]}
            target.append(change)
            taken.append(change)
        return taken


def stacks(turns: Sequence[Turn], steps_of: Callable[[str], Sequence[Step]]) -> Stacks:
    """Return what `turns` (all before the one to answer) did and undid; `steps_of` reads a message."""
    result = Stacks()
    before: dict[Stream, str] = {}
    for turn in turns:
        change = _change(turn, before)
        if turn.brief:
            result = Stacks()
        elif change:
            steps = steps_of(turn.text)
            for step in steps:
                result.take(step)
            if not steps:
                result.done.append(dict(change))
                result.undone.clear()
        before |= {stream: after for stream, (_, after) in change.items()}
    return result


def _change(turn: Turn, before: dict[Stream, str]) -> dict[Stream, tuple[str | None, str]]:
    for state in turn.results("get_current_state"):
        if not state.failed:
            before |= _newest(state.result or {})
    return {
        STREAM_OF[tool]: (before.get(STREAM_OF[tool]), version)
        for tool, version in turn.versions().items()
        if tool in STREAM_OF
    }


def focus(turns: Sequence[Turn]) -> Stream | None:
    """Return the stream a pronoun means: the only one the last changing turn changed, else None."""
    for turn in reversed(turns):
        made = [STREAM_OF[tool] for tool in turn.versions() if tool in STREAM_OF]
        if made and not turn.brief:
            return made[0] if len(made) == 1 else None
    return None
