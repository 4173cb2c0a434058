"""The requests about lessons that the offline model understands."""

from typing import Final

from callsheet.providers.offline.grammar import Form
from callsheet.state.lessons.student import TEENS, TO_TWELVE

_WHO: Final = "(my student|my pupil|my son|my daughter|our class|she|he)"
_WORD: Final = r"(?!(?:and|but|not|who|then|find|make|write|give|use|is|she|he|they)\b)[\w'’-]{1,30}"
_NAME: Final = rf"{_WORD}(?: {_WORD}){{0,2}}"
_SLOTS: Final = {
    "age": rf"\d{{1,2}}|{'|'.join((*TEENS, *TO_TWELVE))}",
    "names": rf"{_NAME}(?:(?:, and |, | and ){_NAME}){{0,3}}",
    "address": r"https?://\S{1,2000}",
    "part": "hook|introduction|explanation|conclusion",
    "unit": "seconds?|minutes?",
    "change": "longer|shorter|easier|harder",
    "ease": "shorter|easier",
}
_TABLE: Final = (
    ("student.age", _WHO + " is {age}[ years old][ and loves {names}]", "My student is 9 and loves football"),
    ("student.interest", _WHO + " loves {names}", "She loves chess and horses"),
    ("source.text", "(here is |use |)(the|my|another|this) (text|lesson)[:]", "Here is the text:"),
    (
        "source.file",
        "find the facts[ in (the|my) (file|pdf|text)[ I uploaded]]",
        "Find the facts in the file",
    ),
    ("source.page", "(here is the lesson: |use this page: |){address}", "https://example.org/rivers"),
    (
        "facts.more",
        "((tell me |)more about {names}|(find |give me |)(other|more) facts[ about {topic:names}])",
        "More about the roots",
    ),
    ("narration.write", "write the (narration|script)", "Write the narration"),
    ("narration.length", "make it {number} {unit}[ long]", "Make it 90 seconds"),
    ("narration.change", "make it {change}", "Make it shorter"),
    ("narration.student", "make it for a {age}(-| )year(-| )old", "Make it for a 6-year-old"),
    ("narration.part", "(make the {part} {change:ease}|rewrite the {again:part})", "Make the hook shorter"),
    ("help", "(hello|hi|help|thanks|thank you|what can you do)", "What can you do?"),
)
FORMS: Final = tuple(Form(name, pattern, example, _SLOTS) for name, pattern, example in _TABLE)
"""A message can also hold material: three sentences, or any text after `source.text`."""
