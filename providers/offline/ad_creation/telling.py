"""The last word of a chat turn: what changed, what did not, what was not understood, and one thing to try."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from providers.offline.ad_creation import questions
from providers.offline.ad_creation.conversation import Turn
from providers.offline.ad_creation.drafts import failures
from providers.offline.ad_creation.edits import Ask, Beyond, Chat, Edit, Note, Outcome, Unclear
from providers.offline.ad_creation.history import STREAM_OF, Ad
from providers.offline.ad_creation.reading import READ_CHARS
from providers.offline.ad_creation.recasting import Offers
from providers.offline.ad_creation.replies import phrase, spoken, versions
from providers.offline.ad_creation.suggestions import suggestion
from providers.offline.ad_creation.understanding import Understood
from providers.offline.ad_creation.variations import Variation
from providers.offline.exchange import Exchange
from state.ad import STREAMS, Stream

_NAMES = 12
"""Voices named where somebody asks who there is."""


@dataclass(frozen=True)
class Telling:
    """What a reply is made of."""

    turns: tuple[Turn, ...]
    asked: Understood
    ad: Ad
    """The ad before the turn."""
    offers: Offers = field(default_factory=Offers)

    @property
    def language(self) -> str:
        """The language of the reply: that of the message."""
        return self.asked.language

    def talk(self, notes: Sequence[Note] = ()) -> str:
        """Return a reply that changes nothing; what was not understood comes with examples."""
        lines = [*spoken(notes, self.language), *self._remarks()]
        lost = bool(self.asked.of(Unclear))
        if not lines:
            kept = not lost and bool(self.asked.edits)
            lines = [phrase("chat.no" if kept else "unclear.nothing", self.language)]
            lost = not kept
        if lost:
            lines.append(phrase("help.examples", self.language))
        return _text([*lines, *self._unread()])

    def report(self, drafted: Sequence[Exchange], outcome: Outcome, options: Sequence[Variation]) -> str:
        """Return what was made of `drafted`, and what else there is to say."""
        made = [(STREAM_OF[one.name], one.version) for one in drafted if one.version]
        written = list(dict.fromkeys(stream for stream, _ in made))
        lost = failures(drafted)
        # What an edit says of itself is only so once it is written.
        notes = outcome.notes if made or not lost else ()
        done = (
            [phrase("frame.made", self.language, {"versions": versions(made, self.language)})] if made else []
        )
        lines = [
            *done,
            *spoken(notes, self.language),
            *self._listed(made, options),
            *self._remarks(),
            *(self.failure(STREAM_OF[one.name], one) for one in lost),
            *self._tightened(drafted),
            *self._untouched(written),
            *self._timing(drafted),
            *([phrase("frame.review", self.language)] if len(options) > 1 else []),
            *self._unread(),
        ]
        recent = "\n".join(step.text for turn in self.turns[-3:-1] for step in turn.steps)
        idea = suggestion(self.ad, outcome.ad, written, self.language, recent) if made else ""
        return _text([*lines, idea])

    def plan(self, options: Sequence[Variation]) -> str:
        """Return the announcement of variations (A77); empty when there are none."""
        if not options:
            return ""
        lines = [phrase("frame.plan", self.language, {"count": str(len(options))})]
        for number, one in enumerate(options, 1):
            what = f"{phrase(f'tone.{one.manner}', self.language)}: {one.what}"
            lines.append(phrase("frame.plan_line", self.language, {"number": str(number), "what": what}))
        return "\n".join(lines)

    def failure(self, stream: str, failed: Exchange) -> str:
        """Return that something could not be written or looked at, and why."""
        values = {"stream": stream, "error": str((failed.result or {}).get("error", ""))}
        return phrase("frame.failed", self.language, values)

    def _listed(self, made: Sequence[tuple[Stream, str]], options: Sequence[Variation]) -> list[str]:
        pairs = zip(made[-len(options) :] if options else (), options, strict=False)
        return [
            f"• {version}: {phrase(f'tone.{one.manner}', self.language)} – {one.what}"
            for (_, version), one in pairs
        ]

    def _untouched(self, written: Sequence[Stream]) -> list[str]:
        same = [
            phrase(f"stream.{one}", self.language)
            for one in STREAMS
            if one in self.ad.newest and one not in written
        ]
        return [phrase("frame.kept", self.language, {"streams": ", ".join(same)})] if same and written else []

    def _tightened(self, drafted: Sequence[Exchange]) -> list[str]:
        shortened = [str(what) for one in drafted for what in (one.result or {}).get("tightened", ())]
        return [phrase("frame.tightened", self.language, {"what": "; ".join(shortened)})] if shortened else []

    def _timing(self, drafted: Sequence[Exchange]) -> list[str]:
        timelines = [(one.result or {}).get("timeline") for one in drafted if one.version]
        last = next((one for one in reversed(timelines) if isinstance(one, dict)), None)
        if not last or "durationSeconds" not in last:
            return []
        duration, spot = float(last["durationSeconds"]), float(last.get("spotSeconds", self.ad.spot_s))
        values = {"duration": f"{duration:.1f}", "spot": f"{spot:g}"}
        return [phrase("frame.time" if last.get("fits", True) else "frame.over", self.language, values)]

    def _unread(self) -> list[str]:
        return [phrase("frame.unread", self.language)] if len(self.turns[-1].text) > READ_CHARS else []

    def _remarks(self) -> list[str]:
        """Return the answers to what is no edit: questions, small talk, limits, what was not understood."""
        return spoken([note for edit in self.asked.edits for note in self._remark(edit)], self.language)

    def _remark(self, edit: Edit) -> list[Note]:
        if isinstance(edit, Chat):
            return [Note(f"chat.{edit.kind}")]
        if isinstance(edit, Beyond):
            return [Note(f"limit.{edit.limit}")]
        if isinstance(edit, Unclear) and edit.key.startswith("unclear"):
            return [Note(edit.key, {"words": edit.words})]
        return self._answered(edit) if isinstance(edit, Ask) else []

    def _answered(self, question: Ask) -> list[Note]:
        topic = question.topic
        if topic in {"able", "self", "cost"}:
            return [Note(f"help.{topic}")]
        if topic == "changed":
            return [self._last_change()]
        if topic == "catalogue":
            others = [one for one in self.offers.of() if str(one["id"]) not in self.offers.rejected]
            names = dict.fromkeys(str(one.get("name")) for one in others[:_NAMES])
            return [Note("answer.catalogue", {"language": self.ad.language, "list": ", ".join(names)})]
        return questions.answer(question, self.ad)

    def _last_change(self) -> Note:
        for turn in reversed(self.turns[:-1]):
            made = [
                (STREAM_OF[tool], version) for tool, version in turn.versions().items() if tool in STREAM_OF
            ]
            if made and not turn.brief:
                words = turn.text.strip()[:120]
                return Note("answer.changed", {"versions": versions(made, self.language), "words": words})
        return Note("answer.unchanged")


def _text(lines: Sequence[str]) -> str:
    return "\n".join(dict.fromkeys(line for line in lines if line))
