"""The text of docs/offline.md, from the offline model's grammar; `python -m tests.offline_document` writes it."""

import re
from collections.abc import Iterable
from pathlib import Path

from callsheet.providers.offline import lessons
from callsheet.providers.offline.ads import edits as ads
from callsheet.providers.offline.ads import first_draft
from callsheet.providers.offline.grammar import Form
from callsheet.providers.offline.pages import edits as pages

FILE = Path(__file__).parent.parent / "docs" / "offline.md"
_INTRODUCTION = """\
# The offline model

Without a key for a language model, Callsheet answers with a small deterministic model: a grammar of English \
requests, no network and no download. It lets you try the workflows, and it drives tests. It is no language \
model: with `OPENAI_API_KEY`, or a local server at `OPENAI_BASE_URL`, a real model answers instead.

It understands the forms below and nothing else. A message is one request, or several joined by "and", "then", \
a comma or a full stop; "please" and "could you" may stand around a request, and capital letters matter only in \
names. If any part of a message matches no form, the whole message is declined in one sentence and nothing is \
changed.

In a form, `[words]` may be left out, `(one|other)` is a choice, and `{slot}` stands for words such as those of \
the example. This page is generated from the grammar; a test compares the two and tries every example.
"""
SECTIONS: tuple[tuple[str, str, tuple[Form, ...]], ...] = (
    (
        "A brief for an ad",
        '`callsheet run ad_creation "30 seconds for Miel, a bakery in Lyon"`. The first draft has two voices, '
        "music and sound effects. The client's name begins with a capital letter; more sentences may follow it. "
        "The script speaks the client's own sentences and stock phrases. A brief in another language gets stock "
        "phrases of that language, if `providers/offline/ads/data.toml` has some, and the reply says so.",
        first_draft.BRIEFS,
    ),
    ("An ad", "Each edit makes a new version of the streams that it names, and of no other.", ads.FORMS),
    (
        "A lesson",
        "A message can also be lesson material, of at least three sentences, with requests about the student or "
        "the length before or after it. The model proposes facts, which are quotations of the material; a person "
        "chooses, and the narration is made of their sentences.",
        lessons.FORMS,
    ),
    (
        "A landing page",
        'An element is named by its text in quotation marks, by its label, by its type and position ("the second '
        'card", "the heading in the hero"), or as "it" and "this". The first form fills in the starter page.',
        pages.FORMS,
    ),
)


def document() -> str:
    """Return the whole document."""
    parts = [_INTRODUCTION]
    for title, text, forms in SECTIONS:
        parts.append(f"## {title}\n\n{text}\n\n{_table(forms)}\n")
    return "\n".join(parts)


def _table(forms: Iterable[Form]) -> str:
    rows = [f"| `{form.name}` | {form.example} | {_cell(form.pattern)} |" for form in forms]
    return "\n".join(["| form | example | pattern |", "|---|---|---|", *rows])


def _cell(pattern: str) -> str:
    """Return a pattern as Markdown: `{name:slot}` as its slot, and the bars escaped."""
    slots = re.sub(r"\{\w+:(\w+)\}", r"{\1}", pattern)
    return f"`{slots}`".replace("|", "\\|")


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
