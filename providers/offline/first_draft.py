"""The first turn of an ad: a plan and a look at the voices, then the three drafts, then the last word."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from providers.offline import casting, copywriter, reports, sound
from providers.offline.brief import Brief, parse
from providers.offline.conversation import Answer, Calls, Conversation, Exchange, Request, Say
from providers.offline.phrasebook import written
from providers.offline.pitch import mood

STREAMS = {"create_voice_draft": "voices", "create_music_draft": "music", "create_sfx_draft": "sfx"}
_TRIES = 3
"""A draft that fails is corrected and tried again twice."""
_ONE_VOICE_S = 10
_SLOW = 0.9


@dataclass(frozen=True)
class _Draft:
    """Everything that follows from the brief alone."""

    brief: Brief
    asked: str
    """The language the ad is asked for in; its seconds are counted in this one."""
    language: str
    """The language that is written and cast."""
    seconds: float
    tone: str
    roles: int
    effects: list[dict[str, Any]]
    texts: list[str]
    variant: int


def respond(conversation: Conversation) -> Answer:
    """Return the next answer of a turn that makes an ad from a brief."""
    draft = _draft(conversation)
    turn = conversation.turn
    voices = [
        voice for one in turn.results("search_voices") for voice in (one.result or {}).get("voices", ())
    ]
    if "search_voices" in conversation.tools and not voices:
        search = _searches(turn.results("search_voices"), draft)
        if search:
            text = reports.plan(
                draft.brief, texts=draft.texts, tone=draft.tone, seconds=draft.seconds, roles=draft.roles
            )
            return Calls(tuple(search), "" if turn.steps else text)
        if not turn.exchanges or not voices:
            return Say(reports.no_voice(draft.brief, draft.texts))
    ids = casting.pick(voices, wishes=draft.brief.wishes, exclude=set(), roles=draft.roles)
    wanted = _requests(conversation, draft, ids)
    due = [request for request in wanted if _due(turn.results(request.name))]
    if due:
        first = not any(turn.results(name) for name in STREAMS)
        return Calls(
            tuple(_corrected(one, turn.results(one.name), voices) for one in due),
            _cast(draft, voices, ids) if first else "",
        )
    return Say(
        reports.result(draft.brief, _made(conversation, draft), language=draft.asked, seconds=draft.seconds)
    )


def closing(conversation: Conversation) -> Say:
    """Return the last word on a first draft when no tool may be called: what was made, or the script."""
    draft = _draft(conversation)
    made = _made(conversation, draft)
    if made.versions:
        return Say(reports.result(draft.brief, made, language=draft.asked, seconds=draft.seconds))
    plan = reports.plan(
        draft.brief, texts=draft.texts, tone=draft.tone, seconds=draft.seconds, roles=draft.roles
    )
    return Say("\n".join([plan, *draft.texts]))


def _draft(conversation: Conversation) -> _Draft:
    turn = conversation.turn
    brief = parse(turn.text)
    asked = turn.language
    language = asked if written(asked) or brief.tongue == asked else "english"
    seconds, tone = turn.spot_s, mood(brief)
    effects = sound.effects(brief, seconds)
    roles = brief.wishes.voices or (1 if seconds <= _ONE_VOICE_S else 2)
    variant = sum(1 for earlier in conversation.turns[:-1] if earlier.brief == turn.brief)
    texts = copywriter.write(
        brief,
        language=asked,
        seconds=seconds - sound.lead_s(effects),
        tone=tone,
        voices=roles,
        variant=variant,
    )
    return _Draft(brief, asked, language, seconds, tone, min(roles, len(texts)), effects, texts, variant)


def _searches(done: Sequence[Exchange], draft: _Draft) -> list[Request]:
    first = casting.queries(draft.language, draft.brief.wishes, draft.roles)
    if not done:
        return [Request("search_voices", query) for query in first]
    asked = [dict(one.args) for one in done]
    for query in first:
        for wider in casting.broader(query):
            if wider not in asked:
                return [Request("search_voices", wider)]
    return []


def _cast(draft: _Draft, voices: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> str:
    names = {str(voice.get("id")): str(voice.get("name") or voice.get("id")) for voice in voices}
    return reports.cast(draft.brief, [names[one] for one in ids])


def _requests(conversation: Conversation, draft: _Draft, ids: Sequence[str]) -> list[Request]:
    ad, brief = {"adId": conversation.ad_id}, draft.brief
    prompt = sound.music_prompt(brief, draft.tone, seconds=draft.seconds, variant=draft.variant)
    planned = [
        Request("create_voice_draft", {**ad, "tracks": _tracks(draft, ids)}) if ids else None,
        Request("create_music_draft", {**ad, "prompt": prompt, "duration": draft.seconds})
        if brief.wishes.music_level != "none"
        else None,
        Request("create_sfx_draft", {**ad, "prompts": draft.effects}) if draft.effects else None,
    ]
    return [one for one in planned if one and one.name in conversation.tools]


def _tracks(draft: _Draft, ids: Sequence[str]) -> list[dict[str, Any]]:
    pace = {"speed": _SLOW} if draft.brief.wishes.slow else {}
    return [{"voiceId": ids[row % len(ids)], "text": text, **pace} for row, text in enumerate(draft.texts)]


def _due(done: Sequence[Exchange]) -> bool:
    return not any(one.version for one in done) and len(done) < _TRIES


def _corrected(request: Request, done: Sequence[Exchange], voices: Sequence[Mapping[str, Any]]) -> Request:
    """Return the request as it is at first; after a failure in its plainest form, with other voices."""
    if not done or (done[-1].result or {}).get("retryable"):
        return request
    args = request.args
    if request.name == "create_music_draft":
        return Request(request.name, {"adId": args["adId"], "prompt": args["prompt"]})
    if request.name == "create_sfx_draft":
        plain = [{"description": one["description"]} for one in args["prompts"]]
        return Request(request.name, {**args, "prompts": plain})
    known = list(dict.fromkeys(str(voice.get("id")) for voice in voices))
    tracks = [
        {"voiceId": known[(row + len(done)) % len(known)], "text": track["text"]}
        for row, track in enumerate(args["tracks"])
    ]
    return Request(request.name, {**args, "tracks": tracks})


def _made(conversation: Conversation, draft: _Draft) -> reports.Made:
    turn = conversation.turn
    versions = {STREAMS[name]: version for name, version in turn.versions().items() if name in STREAMS}
    last = {STREAMS[one.name]: one for one in turn.exchanges if one.name in STREAMS}
    failures = {stream: _error(one) for stream, one in last.items() if stream not in versions}
    timelines = [(one.result or {}).get("timeline") for one in last.values()]
    timeline: Mapping[str, Any] = next((one for one in timelines if one), {})
    tightened = [str(what) for one in last.values() for what in (one.result or {}).get("tightened", ())]
    searches = turn.results("search_voices")
    return reports.Made(
        texts=draft.texts if "voices" in versions else [],
        versions={stream: versions[stream] for stream in STREAMS.values() if stream in versions},
        duration_s=timeline.get("durationSeconds"),
        tightened=tightened,
        failures=failures,
        broadened=any(not (one.result or {}).get("voices") for one in searches),
    )


def _error(exchange: Exchange) -> str:
    return str((exchange.result or {}).get("error", "no answer"))
