"""What people say about a page, and what the offline model makes of it: written before its rules."""

import json
from collections import Counter
from pathlib import Path

import pytest

from state import page_edits
from tests.page_chat import PageChat
from tests.page_score import Case, Turn, load, page_of, score


def played(case: Case) -> Turn:
    """A case, carried out."""
    chat = PageChat(page_of(case.page), locked=case.locked)
    history = []
    for sentence in case.said:
        history.append(chat.page)
        chat.say(sentence)
    chat.selected, chat.yes = case.selected, case.answer != "reject"
    reply = chat.say(case.say)
    return Turn(case, [*history, chat.pages[-1 - chat.made]], chat.page, reply, chat.asked)


@pytest.mark.parametrize("group", sorted({case.group for case in load()}))
def test_what_people_say_about_a_page_is_done_and_nothing_else(group: str) -> None:
    """C21–C28, C-R1: ARCHITECTURE §6's sentences for pages."""
    failures = {case.id: wrong for case in load() if case.group == group and (wrong := score(played(case)))}
    assert failures == {}


def idle(case: Case) -> Turn:
    page = page_of(case.page)
    return Turn(case, [page] * (len(case.said) + 1), page, "Done.", asked=False)


def test_doing_nothing_and_saying_done_passes_for_no_sentence() -> None:
    answered = [case.id for case in load() if not score(idle(case))]
    # Where nothing was done before, nothing has to be taken back.
    assert set(answered) <= {case.id for case in load() if "equals" in case.expect}


def test_an_edit_beside_what_was_asked_fails() -> None:
    [case] = [one for one in load() if one.id == "colour-01"]
    turn = played(case)
    assert score(turn) == []
    more = page_edits.modified(turn.after, "bottom-text", content="© nobody")
    assert score(Turn(case, turn.history, more, turn.reply, asked=False)) == [
        "touches [\"hero-title\"]: touched ['bottom-text', 'hero-title']"
    ]
    gone = page_edits.deleted(turn.after, "reviews")
    assert [line.split(" ")[0] for line in score(Turn(case, turn.history, gone, turn.reply, asked=True))] == [
        "asks_leave",
        "removed",
    ]
    moved = page_edits.moved(turn.after, "about", "bottom", "after")
    assert [line.split(" ")[0] for line in score(Turn(case, turn.history, moved, "", asked=False))] == [
        "the",
        "order",
    ]


def test_the_file_is_as_large_and_as_varied_as_was_promised() -> None:
    cases = load()
    assert len(cases) >= 60
    assert len({case.group for case in cases}) >= 18
    assert min(Counter(case.lang for case in cases).values()) >= 2
    assert len({case.lang for case in cases}) == 10
    assert len({case.page for case in cases}) == 3


def test_a_file_with_a_mistake_is_refused(tmp_path: Path) -> None:
    row = {
        "id": "a",
        "group": "g",
        "lang": "english",
        "page": "gym",
        "say": "undo",
        "expect": {"removed": []},
    }
    path = tmp_path / "cases.jsonl"
    for wrong in ({}, {"expect": {"hidden": 1}}, {"page": "shop"}, {"lang": "klingon"}):
        lines = [row, {**row, **wrong}] if not wrong else [{**row, **wrong}]
        path.write_text("\n".join(json.dumps(one) for one in lines), "utf-8")
        with pytest.raises(ValueError, match="doubled"):
            load(path)
