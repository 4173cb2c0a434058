"""The text of docs/offline.md, made from the grammar; `python -m tests.models.offline_document` writes it."""

import re
from pathlib import Path
from typing import NamedTuple

from callsheet.providers.offline import campaigns, lessons, video
from callsheet.providers.offline.ads import edits as ads
from callsheet.providers.offline.ads import first_draft
from callsheet.providers.offline.grammar import NEGATIONS, SLOTS, Form
from callsheet.providers.offline.pages import edits as pages

FILE = Path(__file__).parents[2] / "docs" / "offline.md"


class Section(NamedTuple):
    """The forms of one kind of request."""

    title: str
    text: str
    forms: tuple[Form, ...]


_INTRODUCTION = """\
# The offline model

Without a key for a language model, Callsheet answers with a small deterministic model: a grammar of
English requests, without network or download. It lets you try the workflows, and it drives tests.
It is no language model: with `OPENAI_API_KEY`, or a local server at `OPENAI_BASE_URL`, a real model
answers instead.

It understands the forms below and nothing else. A message is one request, or several joined by
"and", "then", a comma or a full stop. "please" and "could you" may stand around a request. Capital
letters matter in names only. If any part of a message matches no form, the whole message is
declined in one sentence and changes nothing.

A refusal names the part that was not understood. It offers a request of the same kind: the person's own
without that part, or with the words of the example in its place. Where the part excludes, compares or
counts or names a place, or the request deletes something, that is another request: the refusal lists an
example of each form.

In a pattern, `[words]` may be left out, `(one|other)` is a choice, and `{slot}` stands for the words
listed below the forms. Outside quotation marks and names no slot takes a word that denies, excludes or
restricts:
NEGATIONS.

This page is generated from the grammar; a test compares the two and tries every example.

## How well it does

On 27 November 2026, 250 sentences, 50 for each workflow, were written by somebody who had read this page and
the README and neither the code nor its tests: requests, negations, exclusions, counts, comparisons, two
requests in one, typing errors, and what it cannot do. What would be right was written down first.

| | right | an honest refusal or question | the opposite | a false count or statement | something else |
|---|---|---|---|---|---|
| before mending, which nothing had been fitted to | 84 | 161 | 1 | 2 | 2 |
| after mending | 85 | 165 | 0 | 0 | 0 |

The second row is no measure of other sentences: of 125 that were written after mending, with the code at hand
and nearer to the forms, three were wrong, and mended. All are checked over REST by
`pytest tests/models/test_offline_sentences.py --long`. Two thirds of the 250 are refused; a model with a key
answers them.
"""
SHAPES = {
    "quote": "a text in quotation marks",
    "number": "a number in digits, or `one` to `twelve`",
    "amount": "a number in digits",
    "age": "a number in digits, or `one` to `nineteen`",
    "length": "a number in digits, or `one` to `twelve`, and `seconds` or `minutes`",
    "client": "a name of up to six words in capitals",
    "brief": "sentences that begin with the client's name",
    "colour": "a name of a colour in CSS, such as `light blue`, or `#1e3a8a`",
    "look": "`faster`, `slower`, `shorter`, `longer`, a name of a colour in CSS, or `#1e3a8a`",
    "target": "an element of the page, named as above; a name that the page does not have changes nothing",
    "theme": "the name of a theme; another name changes nothing",
    "address": "an address on the web; in a page also `/shop`, `#prices`, `mailto:…`, or a quoted text",
    "names": "up to four things of one or two words each, without function words such as `more` or `in`",
    "question": "words; the answer is a quote of the fact that has the name in the question, or none",
    "filters": "words of the list, joined by blanks, commas, `and` or `with`; `non-` or `not` leaves one out",
    "about": "words, none of which denies, excludes, restricts or is of another request, such as `show`",
}
"""Description of each slot that is no closed list."""
_BRIEF = """\
`callsheet run ad_creation "30 seconds for Miel, a bakery in Lyon"` makes a first draft: two voices,
music and sound effects. The client's name begins with a capital letter, and more sentences may
follow it. The script has the client's own sentences, with offers, contacts and legal lines, and stock
phrases. A brief in another language gets stock phrases of that language where
`providers/offline/ads/data.toml` has some, and the reply says so. Of directions the model follows the
length, the language, a mood of the music, and "no music" or "no sound effects"; the reply lists the
sentences that it did not speak, those that chose the music apart."""
_LESSON = """\
A message can also be lesson material of at least three sentences, with requests about the student
or the length before or after it. The model proposes facts, which are quotations of the material. A
person chooses, and the narration is made of their sentences.

A choice is numbers (`2`, `1 and 3`, `1, 2, 3`, `#1 #2`), `all`, or a plain `Yes!`, and nothing else; the
forms below remain possible, so "more about the leaves" finds other facts. Ranges such as "1-3" and numbers
in words are declined."""
_PAGE = """\
An element is named by its text in quotation marks, by its label, by its type and position ("the
second card", "the heading in the hero"), or as "it" and "this". The first form fills in the starter
page."""
_VIDEO = """\
A scene is named by its position ("scene 2", "scenes 1 and 3", "the last two scenes"), by "all", or as
"it": the scene that changed last."""
_CAMPAIGNS = f"""\
Words for channels, sentiments, styles, value propositions and the sample library's products are filters,
"recent" is the last 90 days, and "non-premium" leaves premium campaigns out. A request with any other word is
declined, and the reply names the word. Only "campaigns about" searches by meaning.

Two words of one filter stand side by side, joined by "and" or a comma, and mean either; not of value
propositions, of which a campaign has several, nor in "compare". Words that may be meant otherwise
("premium instagram and playful twitter") are declined. A follow-up narrows the last search.

The words are: {", ".join(word for words in campaigns.WORDS.values() for word in words)}."""
SECTIONS = (
    Section("A brief for an ad", _BRIEF, first_draft.BRIEFS),
    Section("An ad", "An edit makes new versions of the streams that it names, and of no others.", ads.FORMS),
    Section("A lesson", _LESSON, lessons.FORMS),
    Section("A landing page", _PAGE, pages.FORMS),
    Section("A video", _VIDEO, video.FORMS),
    Section("Questions about campaigns", _CAMPAIGNS, campaigns.FORMS),
)


def document() -> str:
    """Return the whole document."""
    introduction = _INTRODUCTION.replace("NEGATIONS", f"`{NEGATIONS.replace('|', '`, `')}`")
    sections = [
        f"## {each.title}\n\n{each.text}\n\n{_table(each.forms)}\n\n{_slots(each.forms)}\n"
        for each in SECTIONS
    ]
    return "\n".join([introduction, *sections])


def words_of(slot: str, expression: str) -> str:
    """Return the words of a slot as a pattern of this page; raise `ValueError` if it is no closed list."""
    for part, text in _PARTS.items():
        expression = expression.replace(part, text)
    simpler = ""
    while simpler != expression:
        simpler, expression = expression, _GROUP.sub(_bracket, expression)
    expression = re.sub(r"([\w ])\?", r"[\1]", expression).replace("‹", "(").replace("›", ")")
    if not re.fullmatch(r"[\w ,'’#/|()\[\]{}…-]*", expression) or re.search(r"\{\d|\[\^", expression):
        message = (
            f"the words of the slot {slot!r} are neither a closed list nor described in SHAPES: {expression}"
        )
        raise ValueError(message)
    return expression


_PARTS = {
    SLOTS["quote"]: "{quote}",
    r"(?-i:[A-ZÀ-Þ][\w’-]{1,40})": "{place}",
    r"\d{1,2}": "{number}",
    r"\d{1,3}": "{number}",
    r"\d": "{number}",
    "(?:(?:, | and |, and ){number}){0,20}": "[(, | and |, and ){number} …]",
}
_GROUP = re.compile(r"\(\?:([^()]*)\)(\??)")


def _bracket(group: re.Match[str]) -> str:
    return f"[{group[1]}]" if group[2] else f"‹{group[1]}›"


def _slots(forms: tuple[Form, ...]) -> str:
    """Return a list of the slots in the patterns of forms, each with its words."""
    named = {slot: form for form in forms for slot in re.findall(r"\{(?:\w+:)?(\w+)\}", form.pattern)}
    lines = [f"- `{{{slot}}}`: {_words(slot, form)}" for slot, form in named.items()]
    return "\n".join(lines)


def _words(slot: str, form: Form) -> str:
    expression = {**SLOTS, **form.slots}[slot]
    if slot == "quote":
        return SHAPES[slot]
    try:
        return f"`{words_of(slot, expression)}`"
    except ValueError:
        if slot not in SHAPES:
            raise
        return SHAPES[slot]


def _table(forms: tuple[Form, ...]) -> str:
    rows = [f"| `{form.name}` | {form.example} | {_cell(form.pattern)} |" for form in forms]
    return "\n".join(["| form | example | pattern |", "|---|---|---|", *rows])


def _cell(pattern: str) -> str:
    """Return a pattern as Markdown: `{name:slot}` as its slot, and the bars escaped."""
    return "`" + re.sub(r"\{\w+:(\w+)\}", r"{\1}", pattern).replace("|", "\\|") + "`"


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
