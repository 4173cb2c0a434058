"""A chat turn after the first draft: what the person asks, looked at against the ad, carried out, told.

First the state and the voices that are needed are fetched, then exactly the streams that change are written,
then a text says what changed, what did not, and one thing to try. Questions that need no look, small talk
and what is not understood are answered at once, without a tool call.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from providers.offline import brief, changes, questions, remembered, speech, version_edits
from providers.offline.brief import Brief
from providers.offline.clauses import clauses
from providers.offline.conversation import Answer, Calls, Conversation, Exchange, Request, Say, Turn
from providers.offline.desk import Desk
from providers.offline.edits import (
    STREAM,
    AddTrack,
    Again,
    Ask,
    Beyond,
    ChangeEffects,
    Chat,
    Edit,
    Keep,
    Note,
    Outcome,
    Pace,
    Recast,
    ReplaceMusic,
    Resize,
    Retone,
    ShapeMusic,
    Spacing,
    Speakers,
    Trait,
    Translate,
    Unclear,
    Variations,
    Walk,
    Wish,
)
from providers.offline.history import STREAM_OF, TOOL_OF, Ad, Step, current, focus, stacks
from providers.offline.lexicon import fold, lexicon
from providers.offline.reading import READ_CHARS, Reading, Scene, keeps, read, releases
from providers.offline.recasting import Offers, rejected, searches
from providers.offline.replies import phrase, spoken, versions
from providers.offline.script import duration_s
from providers.offline.suggestions import suggested, suggestion
from providers.offline.tracks import named
from providers.offline.variations import Variation, variations
from state.ad import STREAMS, Stream

ATTEMPTS = 3
"""Times a draft or a look at the ad is tried before the failure is told."""
_LOOKING = questions.STATE_TOPICS | {"catalogue"}
_REPEATABLE = (Pace, ShapeMusic, ReplaceMusic, Resize, Spacing, ChangeEffects, Recast, Variations, Retone)
"""Edits that mean something when they are asked for again."""
_TOO_SHORT = 0.7
"""Share of a spot below which a script is lengthened when the spot changed."""


def respond(conversation: Conversation) -> Answer:
    """Return the next message of a chat turn."""
    return _Refinement(conversation).answer()


@dataclass(frozen=True)
class _Refinement:
    conversation: Conversation

    @cached_property
    def turn(self) -> Turn:
        return self.conversation.turn

    @cached_property
    def earlier(self) -> tuple[Turn, ...]:
        return self.conversation.turns[:-1]

    @cached_property
    def before(self) -> Conversation:
        """The conversation without the drafts of this turn: what they were made from."""
        steps = tuple(
            replace(step, exchanges=tuple(one for one in step.exchanges if one.name not in STREAM_OF))
            for step in self.turn.steps
        )
        return replace(self.conversation, turns=(*self.earlier, replace(self.turn, steps=steps)))

    @cached_property
    def ad(self) -> Ad:
        return current(self.before)

    @cached_property
    def language(self) -> str:
        """The language of the message."""
        spoken_before = "english"
        for turn in self.earlier:
            if not turn.brief:
                spoken_before = speech.language_of(turn.text[:READ_CHARS], spoken_before)
        return speech.language_of(self.turn.text[:READ_CHARS], spoken_before)

    @cached_property
    def scene(self) -> Scene:
        stream = focus(self.earlier)
        return Scene(
            self.ad, self.language, stream, _focused(self.earlier, stream, self.ad), _choices(self.earlier)
        )

    @cached_property
    def reading(self) -> Reading:
        result = read(self.turn.text, self.scene)
        if any(isinstance(one, Chat) and one.kind == "yes" for one in result.edits) and not result.of(
            *changes.ACTING
        ):
            offered = suggested(self.earlier)
            taken = (
                read(offered, replace(self.scene, language=speech.language_of(offered, self.language)))
                if offered
                else None
            )
            result = taken if taken and taken.of(*changes.ACTING) else result
        again = result.of(Again)
        if again:
            edits = [one for one in result.edits if not isinstance(one, Again)]
            result = Reading(
                (*edits, *self._again(less=any(one.less for one in again if isinstance(one, Again))))
            )
        return Reading((*result.edits, *self._server_notes(result)))

    def _again(self, *, less: bool) -> list[Edit]:
        """Return what the last changing turn asked for, as far as it can be asked for twice; or the half of it back."""
        last = next((turn for turn in reversed(self.earlier) if turn.versions() and not turn.brief), None)
        if last is None:
            return [Unclear(self.turn.text.strip())]
        edits = read(
            last.text, replace(self.scene, language=speech.language_of(last.text[:READ_CHARS], self.language))
        ).edits
        if less:
            return (
                [
                    replace(
                        one, add=tuple(Trait(trait.concept, f"slightly {trait.words}") for trait in one.add)
                    )
                    for one in edits
                    if isinstance(one, ShapeMusic) and one.add
                ]
                or [
                    replace(one, factor=1 / one.factor**0.5)
                    for one in edits
                    if isinstance(one, Pace) and one.factor != 1.0
                ]
                or [Walk(Step("undo"))]
            )
        return [one for one in edits if isinstance(one, _REPEATABLE)] or [Unclear(self.turn.text.strip())]

    def _server_notes(self, reading: Reading) -> list[Edit]:
        """Return what the request itself changed: the ad's language, or the spot's length."""
        notes: list[Edit] = []
        if self.turn.language_changed and not reading.of(Translate) and self.ad.tracks:
            notes.append(Translate(self.conversation.language))
        if self.turn.spot_changed and not reading.of(Resize) and self.ad.tracks:
            length = duration_s(self.ad, self.ad.tracks)
            if length > self.conversation.spot_s or length < _TOO_SHORT * self.conversation.spot_s:
                notes.append(Resize(self.conversation.spot_s, longer=length < self.conversation.spot_s))
        return notes

    @cached_property
    def acting(self) -> list[Edit]:
        return self.reading.of(*changes.ACTING)

    def answer(self) -> Answer:
        """Return the next message."""
        drafted = [one for one in self.turn.exchanges if one.name in STREAM_OF]
        if drafted:
            return self._after_drafts(drafted)
        if not self._needs_look:
            return self._talk([])
        if not self.ad.told:
            return self._look()
        missing = [one for one in self._wanted_searches() if not self._searched(one)]
        if missing:
            return Calls(tuple(Request("search_voices", args) for args in missing))
        return self._draft()

    @property
    def _needs_look(self) -> bool:
        asks = any(isinstance(one, Ask) and one.topic in _LOOKING for one in self.reading.edits)
        unsure = any(
            isinstance(one, Unclear) and (one.acting or one.key.startswith("cannot."))
            for one in self.reading.edits
        )
        blind = self.ad.empty and bool(self.reading.of(Unclear))
        return bool(self.acting) or asks or unsure or blind

    def _look(self) -> Answer:
        tried = self.turn.results("get_current_state")
        if len(tried) >= ATTEMPTS or (tried and not (tried[-1].result or {}).get("retryable")):
            return Say(self._failure("ad", tried[-1]))
        look = Request("get_current_state", {"adId": self.conversation.ad_id})
        found = [] if self.ad.empty else [Request("search_voices", one) for one in self._wanted_searches()]
        return Calls((look, *found))

    @cached_property
    def _casting_language(self) -> str:
        wanted = [one.language for one in self.reading.edits if isinstance(one, Translate)]
        return wanted[-1] if wanted else self.ad.language

    def _wanted_searches(self) -> list[dict[str, Any]]:
        wishes: list[Wish] = [
            one.wish
            for one in self.acting
            if isinstance(one, (Recast, AddTrack)) and (isinstance(one, AddTrack) or one.tracks)
        ]
        if any(
            isinstance(one, (Translate, Speakers))
            or (isinstance(one, Variations) and one.stream == "voices" and not one.texts)
            for one in self.acting
        ):
            wishes.append(Wish())
        if any(isinstance(one, Ask) and one.topic == "catalogue" for one in self.reading.edits):
            wishes.append(Wish())
        wanted = [args for wish in wishes for args in searches(wish, self._casting_language)]
        return [args for at, args in enumerate(wanted) if args not in wanted[:at]]

    def _searched(self, args: dict[str, Any]) -> bool:
        return any(dict(one.args) == args for one in self.turn.results("search_voices"))

    @cached_property
    def desk(self) -> Desk:
        text = self.conversation.brief_text or remembered.brief(self.conversation)
        spoken_before = remembered.asked(self.conversation.summary)
        chat = "\n".join((*spoken_before, *(turn.text for turn in self.conversation.turns if not turn.brief)))
        offers = Offers(
            tuple(self.turn.results("search_voices")), self._casting_language, rejected(self.ad), set()
        )
        scripts = len(self.ad.held.get("voices", {}))
        return Desk(
            offers,
            _brief(text) if text else None,
            fold(chat),
            self.language,
            stacks(self.earlier, _steps),
            scripts,
        )

    @cached_property
    def outcome(self) -> Outcome:
        asked = [one for one in self.reading.edits if isinstance(one, Keep)]
        return changes.carry_out(self.reading.edits, self.ad, self.desk, [*asked, *self._standing()])

    def _standing(self) -> list[Keep]:
        """Return what was to be kept for good and is neither named now nor allowed since."""
        held: set[str] = set()
        for text in (
            *remembered.asked(self.conversation.summary),
            *(turn.text for turn in self.earlier if not turn.brief),
        ):
            held = (held - _released(text)) | _kept_for_good(text)
        named = {str(STREAM[type(one)]) for one in self.acting if type(one) in STREAM}
        free = named | _released(self.turn.text)
        return [Keep(tuple(sorted(held - free)))] if held - free else []

    @cached_property
    def options(self) -> list[Variation]:
        """The variations asked for, made from the ad after the other edits."""
        found = [one for one in self.acting if isinstance(one, Variations)]
        return variations(found[0], self.outcome.ad, self.desk) if found else []

    def _drafts(self) -> list[Request]:
        several = next((one.stream for one in self.acting if isinstance(one, Variations)), None)
        streams = [
            one for one in changes.changed(self.ad, self.outcome.ad) if one != several or not self.options
        ]
        made = [_request(self.conversation.ad_id, stream, self.outcome.ad) for stream in streams]
        return [
            *made,
            *(_request(self.conversation.ad_id, several, one.ad) for one in self.options if several),
        ]

    def _draft(self) -> Answer:
        drafts = self._drafts()
        if not drafts:
            return self._talk(list(self.outcome.notes))
        return Calls(tuple(drafts), self._plan())

    def _plan(self) -> str:
        if not self.options:
            return ""
        lines = [phrase("frame.plan", self.language, {"count": str(len(self.options))})]
        for number, one in enumerate(self.options, 1):
            values = {
                "number": str(number),
                "what": f"{phrase(f'tone.{one.manner}', self.language)}: {one.what}",
            }
            lines.append(phrase("frame.plan_line", self.language, values))
        return "\n".join(lines)

    def _after_drafts(self, drafted: list[Exchange]) -> Answer:
        again = [fixed for one in _failures(drafted) if (fixed := self._corrected(one, drafted)) is not None]
        if again:
            return Calls(tuple(again))
        return self._report(drafted)

    def _corrected(self, failed: Exchange, drafted: list[Exchange]) -> Request | None:
        """Return a failed draft to try again: as it was when that may help, else with effects that fit the tracks."""
        tries = [one for one in drafted if one.name == failed.name and one.failed]
        if len(tries) >= ATTEMPTS:
            return None
        if (failed.result or {}).get("retryable"):
            return Request(failed.name, dict(failed.args))
        if failed.name == TOOL_OF["sfx"] and any(
            "index" in (one.get("placement") or {}) for one in failed.args.get("prompts", ())
        ):
            prompts = [
                {**one, "placement": {"type": "end"}} if "index" in (one.get("placement") or {}) else one
                for one in failed.args["prompts"]
            ]
            return Request(failed.name, {**failed.args, "prompts": prompts})
        return None

    def _report(self, drafted: list[Exchange]) -> Say:
        made = [(STREAM_OF[one.name], one.version) for one in drafted if one.version]
        lines = []
        if made:
            lines.append(phrase("frame.made", self.language, {"versions": versions(made, self.language)}))
        lines += self._details(made)
        lines += [self._failure(STREAM_OF[one.name], one) for one in _failures(drafted)]
        lines += self._tightened(drafted)
        lines += self._untouched({stream for stream, _ in made})
        lines += self._timing(drafted)
        if len(self.options) > 1:
            lines.append(phrase("frame.review", self.language))
        idea = suggestion(
            self.ad, self.outcome.ad, [stream for stream, _ in made], self.language, _said(self.earlier)
        )
        return Say("\n".join([*lines, *self._unread(), *([idea] if idea and made else [])]))

    def _details(self, made: list[tuple[Stream, str]]) -> list[str]:
        done = spoken(self.outcome.notes, self.language)
        if not self.options:
            return [*done, *self._remarks()]
        lines = []
        for (_, version), one in zip(made[-len(self.options) :], self.options, strict=False):
            tone = phrase(f"tone.{one.manner}", self.language)
            lines.append(f"• {version}: {tone} – {one.what}")
        return [*done, *lines, *self._remarks()]

    def _untouched(self, written: set[Stream]) -> list[str]:
        same = [
            phrase(f"stream.{one}", self.language)
            for one in STREAMS
            if one in self.ad.newest and one not in written
        ]
        return [phrase("frame.kept", self.language, {"streams": ", ".join(same)})] if same and written else []

    def _tightened(self, drafted: list[Exchange]) -> list[str]:
        shortened = [str(what) for one in drafted for what in (one.result or {}).get("tightened", ())]
        return [phrase("frame.tightened", self.language, {"what": "; ".join(shortened)})] if shortened else []

    def _timing(self, drafted: list[Exchange]) -> list[str]:
        timelines = [(one.result or {}).get("timeline") for one in drafted if one.version]
        last = next((one for one in reversed(timelines) if isinstance(one, dict)), None)
        if not last or "durationSeconds" not in last:
            return []
        values = {
            "duration": f"{float(last['durationSeconds']):.1f}",
            "spot": f"{float(last.get('spotSeconds', self.ad.spot_s)):g}",
        }
        return [phrase("frame.time" if last.get("fits", True) else "frame.over", self.language, values)]

    def _unread(self) -> list[str]:
        return [phrase("frame.unread", self.language)] if len(self.turn.text) > READ_CHARS else []

    def _failure(self, stream: str, failed: Exchange) -> str:
        values = {"stream": stream, "error": str((failed.result or {}).get("error", ""))}
        return phrase("frame.failed", self.language, values)

    def _remarks(self) -> list[str]:
        """Return the answers to what is no edit: questions, small talk, limits."""
        notes: list[Note] = []
        for edit in self.reading.edits:
            notes += self._remark(edit)
        return spoken(notes, self.language)

    def _remark(self, edit: Edit) -> list[Note]:
        if isinstance(edit, Chat):
            return [Note(f"chat.{edit.kind}")]
        if isinstance(edit, Beyond):
            return [Note(f"limit.{edit.limit}")]
        if isinstance(edit, Unclear) and edit.key.startswith("unclear"):
            return [Note(edit.key, {"words": edit.words})]
        if isinstance(edit, Ask):
            return self._answered(edit.topic)
        return []

    def _answered(self, topic: str) -> list[Note]:
        if topic in {"able", "self", "cost"}:
            return [Note(f"help.{topic}")]
        if topic == "changed":
            return [self._last_change()]
        if topic == "catalogue":
            names = [
                str(one.get("name"))
                for one in self.desk.offers.of()
                if str(one["id"]) not in self.desk.offers.rejected
            ]
            return [
                Note(
                    "answer.catalogue",
                    {"language": self.ad.language, "list": ", ".join(dict.fromkeys(names[:12]))},
                )
            ]
        return questions.answer(topic, (), self.ad)

    def _last_change(self) -> Note:
        for turn in reversed(self.earlier):
            made = [
                (STREAM_OF[tool], version) for tool, version in turn.versions().items() if tool in STREAM_OF
            ]
            if made and not turn.brief:
                return Note(
                    "answer.changed",
                    {"versions": versions(made, self.language), "words": turn.text.strip()[:120]},
                )
        return Note("answer.unchanged")

    def _talk(self, notes: list[Note]) -> Say:
        """Return a reply that changes nothing; what was not understood comes with examples."""
        lines = [*spoken(notes, self.language), *self._remarks()]
        lost = any(isinstance(one, Unclear) for one in self.reading.edits)
        if not lines:
            kept = not lost and bool(self.reading.edits)
            lines = [phrase("chat.no" if kept else "unclear.nothing", self.language)]
            lost = not kept
        if lost:
            lines.append(phrase("help.examples", self.language))
        return Say("\n".join([*lines, *self._unread()]))


@lru_cache(maxsize=64)
def _brief(text: str) -> Brief:
    return brief.parse(text)


@lru_cache(maxsize=1024)
def _kept_for_good(message: str) -> set[str]:
    text = message[:READ_CHARS]
    return {name for one in keeps(text, speech.language_of(text)) for name in one.streams}


@lru_cache(maxsize=1024)
def _released(message: str) -> set[str]:
    text = message[:READ_CHARS]
    return releases(text, speech.language_of(text))


@lru_cache(maxsize=1024)
def _steps(message: str) -> list[Step]:
    """Return the ways through the history a message took. Pure, and asked again for every later turn."""
    return version_edits.steps(
        message[:READ_CHARS], lexicon(speech.language_of(message[:READ_CHARS]), message)
    )


def _failures(drafted: list[Exchange]) -> list[Exchange]:
    """Return the drafts whose last attempt failed."""
    last = {one.name: one for one in drafted}
    return [one for one in last.values() if one.version is None]


def _request(ad_id: str, stream: Stream, ad: Ad) -> Request:
    """Return the call that writes a stream as it stands."""
    if stream == "voices":
        return Request(TOOL_OF[stream], {"adId": ad_id, "tracks": [_track(one) for one in ad.tracks]})
    if stream == "sfx":
        return Request(TOOL_OF[stream], {"adId": ad_id, "prompts": [_prompt(one) for one in ad.effects]})
    music = ad.music or {}
    args: dict[str, Any] = {
        "adId": ad_id,
        "prompt": music.get("musicPrompt", ""),
        "provider": music.get("musicProvider") or "loudly",
    }
    return Request(TOOL_OF[stream], args | ({"duration": music["duration"]} if music.get("duration") else {}))


def _track(track: Any) -> dict[str, Any]:
    return {
        key: track[key]
        for key in ("voiceId", "text", "playAfter", "overlap", "speed")
        if track.get(key) is not None
    }


def _prompt(effect: Any) -> dict[str, Any]:
    return {
        key: effect[key] for key in ("description", "placement", "duration") if effect.get(key) is not None
    }


def _said(turns: tuple[Turn, ...]) -> str:
    """Return the last words of the two turns before: what they suggested is not suggested again at once."""
    return "\n".join(step.text for turn in turns[-2:] for step in turn.steps)


def _focused(turns: tuple[Turn, ...], stream: Stream | None, ad: Ad) -> tuple[int, ...]:
    """Return the tracks the last changing turn named, when it changed who speaks or how, and not all of them."""
    last = next((turn for turn in reversed(turns) if turn.versions() and not turn.brief), None)
    if stream != "voices" or last is None:
        return ()
    text = last.text[:READ_CHARS]
    edits = read(text, Scene(ad, speech.language_of(text))).of(Recast, Pace, Spacing)
    tracks = {at for edit in edits for at in getattr(edit, "tracks", ())}
    return tuple(sorted(tracks)) if 0 < len(tracks) < len(ad.tracks) and _names_tracks(text, ad) else ()


def _names_tracks(text: str, ad: Ad) -> bool:
    language = speech.language_of(text)
    found = (named(clause, ad, plural=False) for clause in clauses(text, lexicon(language, text)))
    return any(one.tracks and not one.everyone for one in found)


def _choices(turns: tuple[Turn, ...]) -> tuple[Stream, int] | None:
    """Return the stream and number of the variations the last changing turn made."""
    changing = next((turn for turn in reversed(turns) if turn.versions()), None)
    if changing is None:
        return None
    made = [STREAM_OF[one.name] for one in changing.exchanges if one.name in STREAM_OF and one.version]
    several = next((stream for stream in made if made.count(stream) > 1), None)
    return (several, made.count(several)) if several else None
