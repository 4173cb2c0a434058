"""The tools that make an audio ad: each reads, or writes one version of one stream."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.ads import ad
from callsheet.state.ads.brief import language_name
from callsheet.state.ads.foreign import PLACEHOLDER, foreign_claims
from callsheet.state.ads.mandatory import compare, due_lines, name_line
from callsheet.state.ads.timeline import ROUNDING_S, Timeline, words_that_fit
from callsheet.state.errors import Invalid
from callsheet.state.versions import Version, restored_version, version_fields
from callsheet.storage.artefacts.artefacts import Stream
from callsheet.tools.ads import voices
from callsheet.tools.call import Call, Scope
from callsheet.tools.registry import tool

RECENT_VERSIONS: Final = 5
"""Versions of a stream that `get_current_state` shows in full."""
LISTED_VERSIONS: Final = 10
"""Versions of a stream that it lists; of earlier ones it shows the number."""
COMPARED_VERSIONS: Final = 20
"""Newest versions of a stream that a draft is compared with; an equal one is restored."""
DEFAULT_COUNT: Final = 10
MAX_REWRITES: Final = 2
"""Times in a turn that a model is asked to rewrite a script that lacks something of the brief."""
_REWRITE: Final = (
    "The brief wants `missing` spoken. Write the script again with it, unless it is background or the person "
    "wants it left out."
)
_LEAVE_MISSING: Final = (
    "Do not write the script again for `missing`; the end of your answer will name it to the person."
)
_CHECK: Final = (
    "`check` was not recognised in the script; judge if it is said in other words, background or forgotten."
)
_FOREIGN: Final = (
    "`foreign` is neither in the brief nor in the conversation. Write the script again without what you made "
    "up; a character may have a name."
)
_AdId = Annotated[str, Field(description="The ad this conversation is about", min_length=1, max_length=255)]


class _AdArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class SearchVoices(_AdArguments):
    """Search criteria."""

    language: str = Field(description="Language name or code, such as thai, th or th-TH", max_length=80)
    gender: str | None = Field(
        None, description="Only voices of this gender", json_schema_extra={"enum": ["male", "female"]}
    )
    accent: str | None = Field(None, description="Accent or region, such as US or British", max_length=80)
    style: str | None = Field(
        None, description="Part of a speaking style or use, such as cheerful or news", max_length=80
    )
    count: int = Field(DEFAULT_COUNT, description="How many at most; 1 to 50, 10 when left out")


_GENDERS: Final = frozenset({"male", "female"})


class Track(_AdArguments):
    """One spoken track."""

    voiceId: str = Field(
        description="Id of a voice in <state>, or that search_voices returned", min_length=1, max_length=200
    )
    text: str = Field(description="The words to speak", min_length=1, max_length=10_000)
    playAfter: str | None = Field(
        None, description="start, or the id of an earlier track such as track-0", max_length=80
    )
    overlap: float | None = Field(
        None, description="Seconds to start before that track ends; negative leaves a gap", ge=-60, le=60
    )
    speed: float | None = Field(None, description="Pace; 1 is the voice's own", ge=0.5, le=2)


class VoiceDraft(_AdArguments):
    """A whole version of the voices stream."""

    adId: _AdId
    tracks: list[Track] = Field(description="All tracks of the ad, in order", min_length=1, max_length=40)
    language: str | None = Field(
        None,
        description="Leave out unless the ad is in another language than the ad's stated one",
        max_length=80,
    )


class MusicDraft(_AdArguments):
    """A whole version of the music stream."""

    adId: _AdId
    prompt: str = Field(
        description="Genre, mood, tempo and instruments, in English", min_length=1, max_length=2_000
    )
    provider: Literal["loudly", "mubert"] = Field("loudly", description="Music service; loudly when left out")
    duration: float | None = Field(None, description="Seconds; the spot's length when left out", gt=0, le=600)


class EffectPlacement(_AdArguments):
    """Placement of an effect."""

    type: Literal["start", "end", "afterVoice", "beforeVoices", "withFirstVoice"]
    index: int | None = Field(None, description="Track counted from 0, only for afterVoice", ge=0, le=1000)


class EffectPrompt(_AdArguments):
    """One effect."""

    description: str = Field(description="The sound, in English", min_length=1, max_length=500)
    placement: EffectPlacement | None = Field(None, description="Placement; the end when left out")
    duration: float | None = Field(
        None, description="Seconds, at most 30; 3 when left out", gt=0, le=ad.MAX_SFX_S
    )


class SfxDraft(_AdArguments):
    """A whole version of the sound-effects stream."""

    adId: _AdId
    prompts: list[EffectPrompt] = Field(
        description="All effects of the ad, also those that stay; an empty list for none", max_length=40
    )


class CurrentState(_AdArguments):
    """Arguments of `get_current_state`."""

    adId: _AdId


@tool(schema=SearchVoices, display="Searching voices")
async def search_voices(args: SearchVoices, call: Call) -> dict[str, Any]:
    """Search the voice catalogue by language, gender, accent and style.

    Use this instead of asking the user for a list of voices, where those in <state> do not fit.
    """
    del call
    if args.gender and args.gender.casefold() not in _GENDERS:
        raise Invalid(
            f"gender {args.gender!r} is not 'male' or 'female'", remedy="leave it out to search both"
        )
    matches = voices.search(**args.model_dump())
    if not matches:
        return {
            "error": "No voices found matching the criteria",
            "suggestion": "Try broadening your search (remove accent/style filters, try different gender)",
            "voices": [],
            "count": 0,
        }
    return {"voices": [voice.public() for voice in matches], "count": len(matches)}


@tool(
    schema=VoiceDraft,
    display="Writing and casting the voices",
    writes=("voices",),
    subject="adId",
    idempotent=True,
)
async def create_voice_draft(args: VoiceDraft, call: Call) -> dict[str, Any]:
    """Write all voice tracks (script and cast) as a new draft of the ad's voices.

    Earlier versions stay. Send every track, also unchanged ones.
    """
    _require_filled_in(track.text for track in args.tracks)
    cast = _cast(args, call.scope)
    streams = await _streams(call, "voices")
    tracks = ad.track_list(
        [track.model_dump(exclude_none=True) | {"voiceId": cast[track.voiceId].id} for track in args.tracks]
    )
    stated = language_name(args.language) if args.language else _data(streams, "voices").get("language")
    recast = [
        f"there is no voice {name!r}; {voice.id} ({voice.words()}) speaks instead"
        for name, voice in cast.items()
        if name != voice.id
    ]
    notes = {"recast": recast, "castChanges": _cast_changes(_data(streams, "voices"), tracks)}
    given = {name: lines for name, lines in notes.items() if lines}
    return await _write(call, streams, "voices", ad.voices_data(tracks, stated), given)


def _cast_changes(before: Mapping[str, Any], tracks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each track that another voice speaks than before."""
    cast = {track["id"]: str(track["voiceId"]) for track in before.get("voiceTracks", ())}
    return [
        f"Voice {at} is {_voice_words(track['voiceId'])} in place of {_voice_words(cast[track['id']])}."
        for at, track in enumerate(tracks, 1)
        if cast.get(track["id"], track["voiceId"]) != track["voiceId"]
    ]


def _voice_words(voice_id: str) -> str:
    voice = voices.find(voice_id)
    return voice.words() if voice else voice_id


def _cast(args: VoiceDraft, scope: Scope) -> dict[str, voices.Voice]:
    """Return the voice of each id in a draft, the nearest one for an unknown id.

    Raises `Invalid` for an unknown id in a language without voices.
    """
    names = dict.fromkeys(track.voiceId for track in args.tracks)
    cast = {name: voice for name in names if (voice := voices.find(name))}
    language = args.language or scope.facts.get("language", "")
    for name in names:
        taken = [voice.id for voice in cast.values()]
        voice = cast.get(name) or voices.nearest(name, language, scope.facts.get("market", ""), taken)
        if voice is None:
            raise _unknown_voice(name, language)
        cast[name] = voice
    return cast


def _require_filled_in(texts: Iterable[str]) -> None:
    """Raise `Invalid` for a text with a place of an example that was to be filled in."""
    for text in texts:
        if place := PLACEHOLDER.search(text):
            raise Invalid(
                f"the text has {place[0]!r}, which stands for something of the brief",
                remedy="write what the brief says there, or leave it out",
            )


def _unknown_voice(voice_id: str, language: str) -> Invalid:
    """Return the error for an unknown voice of an ad in a language that nobody speaks."""
    return Invalid(
        f"voice {voice_id!r} is not in the catalogue, which has none for the language {language!r:.80}",
        remedy="search voices in the ad's language, or name another language",
    )


@tool(schema=MusicDraft, display="Describing the music", writes=("music",), subject="adId", idempotent=True)
async def create_music_draft(args: MusicDraft, call: Call) -> dict[str, Any]:
    """Write the background music as a new draft of the ad's music. Earlier versions stay."""
    _require_filled_in([args.prompt])
    streams = await _streams(call, "music")
    data = ad.music_bed(args.prompt, args.provider, args.duration or spot_s(call.scope))
    return await _write(call, streams, "music", data)


@tool(
    schema=SfxDraft,
    display="Placing the sound effects",
    reads=("voices",),
    writes=("sfx",),
    subject="adId",
    idempotent=True,
)
async def create_sfx_draft(args: SfxDraft, call: Call) -> dict[str, Any]:
    """Write all sound effects as a new draft of the ad's effects.

    Earlier versions stay. Send every effect, also unchanged ones: a version holds the complete list.
    """
    _require_filled_in(prompt.description for prompt in args.prompts)
    streams = await _streams(call, "sfx")
    tracks = _data(streams, "voices").get("voiceTracks", ())
    effects = ad.effect_list([prompt.model_dump(exclude_none=True) for prompt in args.prompts], len(tracks))
    return await _write(call, streams, "sfx", {"soundFxPrompts": effects})


@tool(schema=CurrentState, display="Looking at the ad", reads=ad.STREAMS, subject="adId")
async def get_current_state(args: CurrentState, call: Call) -> dict[str, Any]:
    """Read the versions of the ad's voices, music and sound effects.

    <state> has the newest ones; use it for earlier ones, or where <state> is shortened.
    """
    del args
    streams = await call.artefact.newest_of(ad.STREAMS, LISTED_VERSIONS)
    shown = {name: _stream_state(name, stream) for name, stream in streams.items() if stream.versions}
    return {
        **shown,
        "ad": {
            "language": _data(streams, "voices").get("language") or _stated_language(call.scope),
            "spotSeconds": spot_s(call.scope),
            "genders": _genders(_data(streams, "voices")),
        },
        "timeline": _timeline(call.scope, {name: _data(streams, name) for name in shown}),
    }


TOOLS: Final = (search_voices, create_voice_draft, create_music_draft, create_sfx_draft, get_current_state)


def spot_s(scope: Scope) -> float:
    """Return the length of the ad in seconds."""
    return float(scope.facts.get("spotSeconds", 30.0))


def _genders(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the genders of the cast by the id of the voice, those that can be searched for."""
    cast = {str(track["voiceId"]): voices.find(track["voiceId"]) for track in data.get("voiceTracks", ())}
    return {name: voice.gender for name, voice in cast.items() if voice and voice.gender in _GENDERS}


def script_language(data: Mapping[str, Any], scope: Scope) -> str:
    """Return the language of a voices version, which decides the speaking rate.

    It is the one that was stated with the version, or else that of most voices of the cast.
    """
    if data.get("language"):
        return str(data["language"])
    cast = [voices.find(str(track["voiceId"])) for track in data.get("voiceTracks", ())]
    languages = Counter(voice.language for voice in cast if voice)
    return languages.most_common(1)[0][0] if languages else _stated_language(scope)


def _stated_language(scope: Scope) -> str:
    return scope.facts.get("language", "english")


async def _streams(call: Call, written: ad.Stream) -> dict[str, Stream]:
    """Return the newest versions of the ad's streams, of the one that is to be written enough to compare."""
    counts: dict[str, int] = {name: COMPARED_VERSIONS if name == written else 1 for name in ad.STREAMS}
    return await call.artefact.newest_by_count(counts)


async def _write(
    call: Call,
    streams: Mapping[str, Stream],
    stream: ad.Stream,
    data: Mapping[str, Any],
    notes: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    current = {name: _data(streams, name) for name in streams if streams[name].versions} | {stream: data}
    timed = {"status": "draft", **notes, **_length(stream, current, call.scope)}
    if stream == "voices":
        earlier = _script_before(streams["voices"].versions, call.scope)
        timed = _with_missing_lines(timed, data, call.scope, earlier)
    parent = restored_version(streams[stream].versions, data)
    return await call.write(stream, data, parent=parent, result=timed, by="undo" if parent else "model")


def _timeline(scope: Scope, current: Mapping[str, Mapping[str, Any]]) -> Timeline:
    language = script_language(current.get("voices", {}), scope)
    return ad.timeline(current, language=language, spot_s=spot_s(scope))


def _script_before(versions: Sequence[Version], scope: Scope) -> str | None:
    """Return the newest script from before this turn; None for none."""
    drafts = {name for stream, name in scope.earlier_drafts if stream == "voices"}
    earlier = [one for one in versions if one.id not in drafts and one.batch != scope.run]
    return _script(earlier[-1].data) if earlier else None


def _script(data: Mapping[str, Any]) -> str:
    return "\n".join(str(track["text"]) for track in data["voiceTracks"])


def _with_missing_lines(
    result: Mapping[str, Any], data: Mapping[str, Any], scope: Scope, earlier: str | None
) -> dict[str, Any]:
    """Return a draft's result with what the person wants spoken and the script does not say.

    What is to be checked is only said with a turn's first script, or a model would write on and on.
    """
    script = _script(data)
    lines = [
        *name_line(scope.facts.get("client", ""), script, earlier),
        *due_lines(scope.brief, scope.request, earlier),
    ]
    missing, check = compare(lines, script, script_language(data, scope))
    rewrites = [stream for stream, _ in scope.earlier_drafts].count("voices")
    wishes = [str(result["suggestion"])] if "suggestion" in result else []
    names = {}
    if missing:
        names["missing"] = [*map(str, missing)]
        wishes.append(_REWRITE if rewrites < MAX_REWRITES else _LEAVE_MISSING)
    if check and not rewrites:
        names["check"] = [*map(str, check)]
        wishes.append(_CHECK)
    if foreign := foreign_claims(_script(data), _texts_of_person(scope), script_language(data, scope)):
        names["foreign"] = foreign
        wishes += [_FOREIGN] if not rewrites else []
    return {**result, **names, **({"suggestion": " ".join(wishes)} if wishes else {})}


def _texts_of_person(scope: Scope) -> list[str]:
    return [scope.brief, scope.request, scope.words, scope.facts.get("market", "")]


def _length(stream: ad.Stream, current: Mapping[str, Mapping[str, Any]], scope: Scope) -> dict[str, Any]:
    """Return whether the ad fits its spot after a draft; for a script that does not, how many words fit."""
    timeline = _timeline(scope, current)
    length = {key: timeline[key] for key in ("spotSeconds", "durationSeconds", "fits", "short")}
    if stream == "music":
        music_s = timeline.get("music", {"end": 0.0})["end"]
        if music_s <= timeline["spotSeconds"] + ROUNDING_S:
            # Music alone says nothing about the length of an ad whose script is not written yet.
            return {"timeline": length} if current.keys() - {"music"} else {}
        too_long = (
            f"The music lasts {music_s:g} s in a spot of {timeline['spotSeconds']:g} s; make it shorter"
        )
        return {"timeline": length | {"fits": False}, "suggestion": too_long}
    if stream != "voices" or (timeline["fits"] and not timeline["short"]):
        return {"timeline": length}
    if timeline["short"]:
        return {"timeline": length, **_shortfall(timeline, current, scope)}
    return {"timeline": length, **_overrun(timeline, current, scope)}


def _shortfall(timeline: Timeline, current: Mapping[str, Mapping[str, Any]], scope: Scope) -> dict[str, Any]:
    """Return how much of its spot a short script fills, and how many words still fit."""
    count, unit = _budget(current, scope)
    spare = round(count * (1 - timeline["durationSeconds"] / timeline["spotSeconds"]))
    fills = f"It fills {ad.filled_percent(timeline)} % of the spot; about {spare} more {unit} fit."
    if [stream for stream, _ in scope.earlier_drafts].count("voices"):
        return {"suggestion": fills}
    return {"suggestion": f"{fills} Write more, unless the person wants it short."}


def _overrun(timeline: Timeline, current: Mapping[str, Mapping[str, Any]], scope: Scope) -> dict[str, Any]:
    count, unit = _budget(current, scope)
    return {
        "overBySeconds": timeline["overSeconds"],
        f"budget{unit.capitalize()}": count,
        "suggestion": "Rewrite the script so that it fits, and keep legal lines, prices, dates and contacts. "
        "It is stored as you wrote it. After two rewrites, tell the person by how much it is too long.",
    }


def _budget(current: Mapping[str, Mapping[str, Any]], scope: Scope) -> tuple[int, str]:
    """Return the words or characters that fit beside the effects, as the state block names them."""
    effects = current.get("sfx", {}).get("soundFxPrompts", ())
    return words_that_fit(script_language(current["voices"], scope), spot_s(scope), effects)


def _data(streams: Mapping[str, Stream], name: str) -> Mapping[str, Any]:
    newest = streams[name].newest()
    return newest.data if newest else {}


def _stream_state(name: str, stream: Stream) -> dict[str, Any]:
    newest, recent = stream.versions[-1], stream.versions[-RECENT_VERSIONS:]
    return {
        "versionId": newest.id,
        "summary": ad.summary(name, newest.data),
        "status": version_fields(newest, newest)["status"],
        "activeVersionId": stream.active,
        "data": newest.data,
        "earlierVersions": stream.older,
        # The newest one's data is above; it is the longest part of a look-up that every state keeps.
        "versions": [
            _version_view(name, version, newest, full=version in recent and version is not newest)
            for version in stream.versions
        ],
    }


def _version_view(name: str, version: Version, newest: Version, *, full: bool) -> dict[str, Any]:
    view = {
        "versionId": version.id,
        "status": version_fields(version, newest)["status"],
        "parent": version.parent,
        "summary": ad.summary(name, version.data),
    }
    return view | ({"data": version.data} if full else {})
