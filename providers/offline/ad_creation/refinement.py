"""A chat turn after the first draft: what the person asks, looked at against the ad, carried out, told.

First the state and the voices that are needed are fetched, then exactly the streams that change are written,
then a text says what changed, what did not, and one thing to try. Questions that need no look, small talk
and what is not understood are answered at once, without a tool call.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from providers.offline.ad_creation import brief, changes, questions, remembered
from providers.offline.ad_creation.brief import Brief
from providers.offline.ad_creation.conversation import Conversation, Turn
from providers.offline.ad_creation.desk import Desk
from providers.offline.ad_creation.drafts import ATTEMPTS, corrected, failures, request
from providers.offline.ad_creation.edits import (
    AddTrack,
    Ask,
    Outcome,
    Recast,
    Speakers,
    Translate,
    Unclear,
    Variations,
    Wish,
)
from providers.offline.ad_creation.history import STREAM_OF, Ad, current, stacks
from providers.offline.ad_creation.recasting import Offers, rejected, searches
from providers.offline.ad_creation.telling import Telling
from providers.offline.ad_creation.understanding import Understood, renamed, steps, understood
from providers.offline.ad_creation.variations import Variation, variations
from providers.offline.answer import Answer, Calls, Request, Say
from providers.offline.exchange import Exchange
from providers.offline.lexicon import fold

_LOOKING = questions.STATE_TOPICS | {"catalogue"}


def respond(conversation: Conversation) -> Answer:
    """Return the next message of a chat turn."""
    return _Refinement(conversation).answer()


@dataclass(frozen=True)
class _Refinement:
    """One answer; everything follows from the conversation."""

    conversation: Conversation

    @property
    def turn(self) -> Turn:
        return self.conversation.turn

    @cached_property
    def ad(self) -> Ad:
        """The ad before the drafts of this turn."""
        kept = [
            replace(step, exchanges=tuple(one for one in step.exchanges if one.name not in STREAM_OF))
            for step in self.turn.steps
        ]
        turn = replace(self.turn, steps=tuple(kept))
        return current(replace(self.conversation, turns=(*self.conversation.turns[:-1], turn)))

    @cached_property
    def asked(self) -> Understood:
        return understood(self.conversation, self.ad)

    @cached_property
    def telling(self) -> Telling:
        return Telling(self.conversation.turns, self.asked, self.ad, self.desk.offers)

    def answer(self) -> Answer:
        """Return the next message."""
        drafted = [one for one in self.turn.exchanges if one.name in STREAM_OF]
        if drafted:
            return self._after_drafts(drafted)
        if not self._needs_look:
            return Say(self.telling.talk())
        if not self.ad.told:
            return self._look()
        searched = [dict(one.args) for one in self.turn.results("search_voices")]
        missing = [args for args in self._searches() if args not in searched]
        if missing:
            return Calls(tuple(Request("search_voices", args) for args in missing))
        return self._draft()

    @property
    def _needs_look(self) -> bool:
        asks = any(isinstance(one, Ask) and one.topic in _LOOKING for one in self.asked.edits)
        unclear = [one for one in self.asked.edits if isinstance(one, Unclear)]
        unsure = any(one.acting or not one.key.startswith("unclear.") for one in unclear)
        return bool(self.asked.acting) or asks or unsure or (self.ad.empty and bool(unclear))

    def _look(self) -> Answer:
        tried = self.turn.results("get_current_state")
        if len(tried) >= ATTEMPTS or (tried and not (tried[-1].result or {}).get("retryable")):
            return Say(self.telling.failure("ad", tried[-1]))
        look = Request("get_current_state", {"adId": self.conversation.ad_id})
        found = [] if self.ad.empty else [Request("search_voices", one) for one in self._searches()]
        return Calls((look, *found))

    @cached_property
    def _casting_language(self) -> str:
        wanted = [one.language for one in self.asked.edits if isinstance(one, Translate)]
        return wanted[-1] if wanted else self.ad.language

    def _searches(self) -> list[dict[str, Any]]:
        """Return the arguments of the searches for voices that the edits need, without doubles."""
        wishes = [
            one.wish
            for one in self.asked.edits
            if isinstance(one, AddTrack) or (isinstance(one, Recast) and one.tracks)
        ]
        if any(_casts_anyone(one) for one in self.asked.edits):
            wishes.append(Wish())
        wanted = [args for wish in wishes for args in searches(wish, self._casting_language)]
        return [args for at, args in enumerate(wanted) if args not in wanted[:at]]

    @cached_property
    def desk(self) -> Desk:
        text = self.conversation.brief_text or remembered.brief(self.conversation)
        parsed = _brief(text) if text else None
        name = renamed(self.conversation.turns[:-1])
        messages = (turn.text for turn in self.conversation.turns if not turn.brief)
        found = tuple(self.turn.results("search_voices"))
        return Desk(
            offers=Offers(found, self._casting_language, rejected(self.ad)),
            brief=replace(parsed, brand=name) if parsed and name else parsed,
            said=fold("\n".join((*remembered.asked(self.conversation.summary), *messages))),
            language=self.asked.language,
            stacks=stacks(self.conversation.turns[:-1], steps),
            variant=len(self.ad.held.get("voices", {})),
        )

    @cached_property
    def outcome(self) -> Outcome:
        return changes.carry_out(self.asked.edits, self.ad, self.desk, self.asked.keeps)

    @cached_property
    def options(self) -> list[Variation]:
        """The variations asked for, made from the ad after the other edits."""
        found = [one for one in self.asked.edits if isinstance(one, Variations)]
        return variations(found[0], self.outcome.ad, self.desk) if found else []

    def _draft(self) -> Answer:
        several = next((one.stream for one in self.asked.edits if isinstance(one, Variations)), None)
        streams = changes.changed(self.ad, self.outcome.ad)
        drafts = [
            request(self.conversation.ad_id, stream, self.outcome.ad)
            for stream in streams
            if stream != several or not self.options
        ]
        if several:
            drafts += [request(self.conversation.ad_id, several, one.ad) for one in self.options]
        if not drafts:
            return Say(self.telling.talk(self.outcome.notes))
        return Calls(tuple(drafts), self.telling.plan(self.options))

    def _after_drafts(self, drafted: list[Exchange]) -> Answer:
        again = [fixed for one in failures(drafted) if (fixed := corrected(one, drafted)) is not None]
        return Calls(tuple(again)) if again else Say(self.telling.report(drafted, self.outcome, self.options))


def _casts_anyone(edit: object) -> bool:
    """Whether an edit needs to know everyone who could speak."""
    several = isinstance(edit, Variations) and edit.stream == "voices" and not edit.texts
    return (
        several
        or isinstance(edit, (Translate, Speakers))
        or (isinstance(edit, Ask) and edit.topic == "catalogue")
    )


@lru_cache(maxsize=64)
def _brief(text: str) -> Brief:
    return brief.parse(text)
