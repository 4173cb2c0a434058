"""The workflow `page_builder`: one answer to one conversation about a landing page.

First the page is looked at, then what has to be known of single elements is read, then the smallest edits
are called for, and then is said what became of them.
"""

from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from providers.offline.answer import Answer, Calls, Request, Say
from providers.offline.exchange import Exchange
from providers.offline.page_builder import plans, talk
from providers.offline.page_builder.conversation import DESTRUCTIVE, Conversation, Turn, read
from providers.offline.page_builder.edits import Edit, Scene, Unclear, Unread
from providers.offline.page_builder.notes import note, sentence
from providers.offline.page_builder.targets import Pointed
from providers.offline.page_builder.view import View, view_of

_TRIES = 2
"""How often an edit is called for that another one had to wait for, or that was told to try again."""


def answer(messages: Sequence[BaseMessage], allowed: frozenset[str]) -> Answer | None:
    """Return what the model says next, calling none but the `allowed` tools; None before anybody spoke."""
    conversation = read(messages, allowed)
    if conversation is None:
        return None
    language = conversation.language
    if said := talk.at_once(conversation.turn.text, language):
        return Say(said)
    looked = [one for one in conversation.turn.exchanges if one.name == "list_elements"]
    if not looked:
        return _calls([Request("list_elements", {})], conversation)
    view = _view(conversation.turn, looked[-1])
    return _after_looking(conversation, view) if view else Say(sentence(note("say.cannot_look"), language))


def _calls(
    requests: Sequence[Request], conversation: Conversation, otherwise: str = "", text: str = ""
) -> Answer:
    calls = tuple(request for request in requests if request.name in conversation.tools)
    if calls:
        return Calls(calls, text)
    return Say(otherwise or sentence(note("say.only_talk"), conversation.language))


def _view(turn: Turn, looked: Exchange) -> View | None:
    told = {
        str(one.result.get("id")): one.result
        for one in turn.exchanges
        if one.name == "read_element" and one.result and not one.failed
    }
    return view_of(looked.result or {}, told)


def _after_looking(conversation: Conversation, view: View) -> Answer:
    question = talk.asked(conversation.turn.text)
    if question is not None:
        scene = Scene(view, conversation, Pointed((view.selected,) if view.selected else ()))
        try:
            return Say(talk.answered(question, scene, conversation.language))
        except Unclear as problem:
            return Say(talk.unclear(problem, conversation.language))
        except Unread as more:
            return _calls(_reads(more.ids), conversation)
    plan = plans.plan(conversation, view)
    if plan.unread:
        return _calls(_reads(plan.unread), conversation)
    return _carried_out(plan, conversation)


def _reads(ids: Sequence[str]) -> list[Request]:
    return [Request("read_element", {"elementId": one}) for one in ids]


def _carried_out(plan: plans.Plan, conversation: Conversation) -> Answer:
    outcomes = [(edit, _tried(edit, conversation.turn)) for edit in plan.edits]
    pending = [edit.request for edit, tries in outcomes if _again(tries)]
    done = [(edit, tries[-1]) for edit, tries in outcomes if tries]
    word = talk.report(plan, done, conversation.language)
    if not pending:
        return Say(word)
    asking = [edit for edit in plan.edits if edit.request in pending and edit.request.name in DESTRUCTIVE]
    return _calls(pending, conversation, word, talk.announced(asking, conversation.language))


def _tried(edit: Edit, turn: Turn) -> list[Exchange]:
    """Return what became of an edit so far, oldest first."""
    name, args = edit.request.name, edit.request.args
    return [one for one in turn.exchanges if (one.name, one.args) == (name, args) and one.result is not None]


def _again(tries: Sequence[Exchange]) -> bool:
    if not tries:
        return True
    last = tries[-1]
    return last.failed and bool((last.result or {}).get("retryable")) and len(tries) < _TRIES
