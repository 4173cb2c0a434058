"""The first turn of an ad: a plan and a look at the voices, then the three drafts, then the last word."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from providers.offline.ad_creation import casting, copywriter, reports, sound
from providers.offline.ad_creation.brief import Brief, parse
from providers.offline.ad_creation.conversation import Conversation
from providers.offline.ad_creation.phrasebook import TONES, written
from providers.offline.ad_creation.pitch import mood, near
from providers.offline.answer import Answer, Calls, Request, Say
from providers.offline.exchange import Exchange

STREAMS = {"create_voice_draft": "voices", "create_music_draft": "music", "create_sfx_draft": "sfx"}
_TRIES = 3
"""A draft that fails is corrected and tried again twice."""
_ONE_VOICE_S = 10
_SLOW = 0.9
_MOST_TAKES = 5
Voices = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class _Take:
    """One way to say it."""

    tone: str
    texts: list[str]


@dataclass(frozen=True)
class _Draft:
    """Everything that follows from the brief alone."""

    brief: Brief
    asked: str
    """The language the ad is asked for in; its seconds are counted in this one."""
    language: str
    """The language that is written and cast."""
    seconds: float
    roles: int
    effects: list[dict[str, Any]]
    takes: list[_Take]
    """One, or as many as the brief asks for, in different tones."""
    variant: int


def respond(conversation: Conversation) -> Answer:
    """Return the next answer of a turn that makes an ad from a brief."""
    draft, turn = _draft(conversation), conversation.turn
    voices = [
        voice for one in turn.results("search_voices") for voice in (one.result or {}).get("voices", ())
    ]
    if (
        "search_voices" in conversation.tools
        and len({str(voice.get("id")) for voice in voices}) < draft.roles
    ):
        search = _searches(turn.results("search_voices"), draft)
        if search:
            return Calls(tuple(search), "" if turn.steps else _plan(draft))
        if not voices:
            return Say(reports.no_voice(draft.brief, draft.takes[0].texts))
    wanted = _requests(conversation, draft, voices)
    due = [
        request for requests in wanted for request in _due(requests, turn.results(requests[0].name), voices)
    ]
    if due:
        first = not any(turn.results(name) for name in STREAMS)
        return Calls(tuple(due), _cast(draft, due, voices) if first else "")
    return Say(_result(conversation, draft))


def closing(conversation: Conversation) -> Say:
    """Return the last word on a first draft when no tool may be called: what was made, or the script."""
    draft = _draft(conversation)
    if _made(conversation, draft).versions:
        return Say(_result(conversation, draft))
    return Say("\n".join([_plan(draft), *draft.takes[0].texts]))


def _draft(conversation: Conversation) -> _Draft:
    turn = conversation.turn
    brief, asked, seconds = parse(turn.text), turn.language, turn.spot_s
    language = asked if written(asked) or brief.tongue == asked else "english"
    effects = sound.effects(brief, seconds)
    roles = brief.wishes.voices or (1 if seconds <= _ONE_VOICE_S else 2)
    variant = sum(1 for earlier in conversation.turns[:-1] if earlier.brief == turn.brief)
    spoken_s = seconds - sound.lead_s(effects)
    takes = [
        _Take(
            tone,
            copywriter.write(
                brief, language=asked, seconds=spoken_s, tone=tone, voices=roles, variant=variant
            ),
        )
        for tone in _tones(brief)
    ]
    return _Draft(brief, asked, language, seconds, min(roles, len(takes[0].texts)), effects, takes, variant)


def _tones(brief: Brief) -> list[str]:
    """Return a tone for every take: the ad's own, those that go with it, then the others."""
    own = mood(brief)
    return list(dict.fromkeys([own, *near(own), *TONES]))[: max(1, min(brief.wishes.takes, _MOST_TAKES))]


def _plan(draft: _Draft) -> str:
    tones = [take.tone for take in draft.takes]
    return reports.plan(
        draft.brief, texts=draft.takes[0].texts, tones=tones, seconds=draft.seconds, roles=draft.roles
    )


def _searches(done: Sequence[Exchange], draft: _Draft) -> list[Request]:
    first = casting.queries(draft.language, draft.brief.wishes, draft.roles)
    if not done:
        return [Request("search_voices", query) for query in first]
    asked = [dict(one.args) for one in done]
    wider = (query for one in first for query in casting.broader(one) if query not in asked)
    return [Request("search_voices", query) for query in list(wider)[:1]]


def _cast(draft: _Draft, due: Sequence[Request], voices: Voices) -> str:
    names = {str(voice.get("id")): str(voice.get("name") or voice.get("id")) for voice in voices}
    return reports.cast(
        draft.brief, [names[track["voiceId"]] for one in due for track in one.args.get("tracks", ())]
    )


def _requests(conversation: Conversation, draft: _Draft, voices: Voices) -> list[list[Request]]:
    """Return the drafts to make, a list for each tool: of the voices one for each take."""
    ad, brief = {"adId": conversation.ad_id}, draft.brief
    planned = [[Request("create_voice_draft", {**ad, "tracks": tracks}) for tracks in _tracks(draft, voices)]]
    if brief.wishes.music_level != "none":
        prompt = sound.music_prompt(brief, draft.takes[0].tone, seconds=draft.seconds, variant=draft.variant)
        provider = {"provider": brief.wishes.provider} if brief.wishes.provider else {}
        music = {**ad, "prompt": prompt, **provider, "duration": draft.seconds}
        planned.append([Request("create_music_draft", music)])
    if draft.effects:
        planned.append([Request("create_sfx_draft", {**ad, "prompts": draft.effects})])
    return [requests for requests in planned if requests and requests[0].name in conversation.tools]


def _tracks(draft: _Draft, voices: Voices) -> list[list[dict[str, Any]]]:
    """Return the tracks of every take, each cast with voices the others do not have while there are any."""
    pace = {"speed": _SLOW} if draft.brief.wishes.slow else {}
    used: set[str] = set()
    takes: list[list[dict[str, Any]]] = []
    for take in draft.takes:
        fresh = casting.pick(voices, wishes=draft.brief.wishes, exclude=used, roles=draft.roles)
        ids = fresh or casting.pick(voices, wishes=draft.brief.wishes, exclude=set(), roles=draft.roles)
        if ids:
            takes.append(
                [
                    {"voiceId": ids[row % len(ids)], "text": text, **pace}
                    for row, text in enumerate(take.texts)
                ]
            )
        used |= set(ids)
    return takes


def _due(requests: Sequence[Request], done: Sequence[Exchange], voices: Voices) -> list[Request]:
    """Return the requests of one tool that have not succeeded yet, corrected where they failed."""
    made = [_said(one.args) for one in done if one.version]
    failed = [one for one in done if not one.version]
    if len(failed) >= _TRIES:
        return []
    missing = [request for request in requests if _said(request.args) not in made]
    return [_corrected(request, failed, voices) for request in missing]


def _said(args: Mapping[str, Any]) -> str:
    """Return what tells one take from another: the words."""
    return "\n".join(str(track["text"]) for track in args.get("tracks", ()))


def _corrected(request: Request, failed: Sequence[Exchange], voices: Voices) -> Request:
    """Return the request as it is at first; after a failure in its plainest form, with other voices."""
    if not failed or (failed[-1].result or {}).get("retryable"):
        return request
    args = request.args
    if request.name == "create_music_draft":
        return Request(request.name, {"adId": args["adId"], "prompt": args["prompt"]})
    if request.name == "create_sfx_draft":
        plain = [{"description": one["description"]} for one in args["prompts"]]
        return Request(request.name, {**args, "prompts": plain})
    known = list(dict.fromkeys(str(voice.get("id")) for voice in voices))
    tracks = [
        {"voiceId": known[(row + len(failed)) % len(known)], "text": track["text"]}
        for row, track in enumerate(args["tracks"])
    ]
    return Request(request.name, {**args, "tracks": tracks})


def _result(conversation: Conversation, draft: _Draft) -> str:
    made = _made(conversation, draft)
    return reports.result(draft.brief, made, language=draft.asked, seconds=draft.seconds)


def _made(conversation: Conversation, draft: _Draft) -> reports.Made:
    turn = conversation.turn
    done = {stream: turn.results(tool) for tool, stream in STREAMS.items()}
    versions = {stream: [one.version for one in ones if one.version] for stream, ones in done.items()}
    answers = [one.result or {} for ones in done.values() for one in ones]
    # The drafts of one message are written side by side: the longest saw the most of the ad.
    lengths_s = [one["timeline"]["durationSeconds"] for one in answers if one.get("timeline")]
    return reports.Made(
        texts=draft.takes[0].texts if versions["voices"] else [],
        versions={stream: made for stream, made in versions.items() if made},
        tones=[take.tone for take in draft.takes],
        duration_s=max(lengths_s, default=None),
        tightened=[str(what) for one in answers for what in one.get("tightened", ())],
        failures={stream: _error(ones[-1]) for stream, ones in done.items() if ones and not versions[stream]},
        broadened=any(not (one.result or {}).get("voices") for one in turn.results("search_voices")),
    )


def _error(exchange: Exchange) -> str:
    return str((exchange.result or {}).get("error", "no answer"))
