"""The requests about a landing page that the offline model understands."""

import re
from typing import Final

from callsheet.providers.offline.grammar import NUMBERS, SLOTS, Form
from callsheet.state.pages.colors import NAMES

_SHADES: Final = re.compile(r"^(dark|deep|forest|hot|light|medium|pale|royal|sky|steel)(?=.)")
_TOKEN: Final = rf"(?:{SLOTS['quote']}|(?!(?:and|then)\b)\w[\w'’&-]*)"
_REQUEST_WORDS: Final = "add|make|change|delete|remove|move|set|use|link|button|form|section|heading|features|pricing|testimonials"
_SLOTS: Final = {
    # Lazy, so that in "make the headline dark green" the colour has two words.
    "target": rf"{_TOKEN}(?: {_TOKEN}){{0,7}}?",
    "about": rf"(?:(?!\b(?:{_REQUEST_WORDS})\b)[^.;!?]){{3,200}}",
    "colour": r"#[0-9a-f]{3}|#[0-9a-f]{6}|" + "|".join(_SHADES.sub(r"\1 ?", name) for name in NAMES),
    "part": r"(?:text|font|background)(?: colou?r)?|colou?r",
    "size": r"(?:a bit |much )?(?:bigger|larger|smaller)|\d{1,3} ?(?:px|pixels)",
    "style": "bold|italic|underlined|uppercase|centered",
    "address": rf"{SLOTS['quote']}|(?:https?://|mailto:|tel:|/|#)\S+",
    "kit": "contact form|pricing",
    "kind": "button|heading|paragraph|text|image|link|quote",
    "beside": "above|below|before|after",
    "where": "above|below|before|after|into|in|to",
    "number": r"[1-9]\d?|" + "|".join(NUMBERS),
}
_TABLE: Final = (
    (
        "page",
        "[(make|create|build|write) ][me ](a|the) [landing ](page|website) for {client}[(,|:| –| -) {about}]",
        "make a landing page for Miel, a bakery in Lyon",
    ),
    ("text", "(change|set) [the text of] {target} to {quote}", 'change the headline to "Bread at four"'),
    ("colour", "(make|turn|set|change) [the {part} of] {target} [to] {colour}", "make the hero light blue"),
    ("size", "(make|set) {target} [to] {size}", "make the headline bigger"),
    ("style", "make {target} {style}", "make the footer text bold"),
    ("link", "link {target} to {address}", 'link "Get started" to https://bakery.example/shop'),
    (
        "add.section",
        "add (a |another |){kit}(| section)(| at the end| {beside} {target})",
        "add a contact form below the features",
    ),
    (
        "add.element",
        "add (a|an|another) {kind}(| saying| that says) {text:address}(| {where} {target})",
        'add a button saying "Call us" to the hero',
    ),
    ("clear", "(clear|empty|delete) (the page|the whole page|everything)", "clear the page"),
    ("delete", "(delete|remove) {target}", "delete the second card"),
    ("move", "move {target} {where} {other:target}", "move the hero below the features"),
    ("theme", "(use|apply|switch to) the {words} theme", "use the ocean theme"),
    ("undo", "undo(| that| it| this| the last change| the last {number} changes)", "undo that"),
    ("outline", "(what is|what's) on the page", "what is on the page?"),
    ("help", "(what can you do|help)", "what can you do?"),
)
FORMS: Final = tuple(Form(*row, _SLOTS) for row in _TABLE)
"""The first form that matches is used."""
