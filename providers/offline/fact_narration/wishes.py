"""What a teacher's message holds: a student, material to teach from, and what to do with it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import sentencex

from state.languages import detected, find
from state.learning import style
from state.lengths import lasting, seconds
from state.narration import Kind
from state.student import ORDINALS, TEENS, TO_TWELVE

_ADDRESS = re.compile(r"https?://[^\s<>\"')\]]+[^\s<>\"')\].,;:!?]")
_NUMBER = rf"(?:\d{{1,2}}|(?:{'|'.join((*TO_TWELVE, *TEENS))})\b)"
_ORDINAL = rf"(?:{'|'.join(ORDINALS)}|\d{{1,2}}(?:st|nd|rd|th))"
_STUDENT = re.compile(
    r"\b(?:(?:my|our|the|a) (?:\w+ )?(?:students?|pupils?|child(?:ren)?|kids?|son|daughter|class|learners?|"
    r"niece|nephew|grand\w+|girls?|boys?|teen\w*)\b|our (?:niece|nephew)\b|\bi teach\b|"
    r"^for an? \w+ (?:of|aged)\b|this is for\b|it['’]?s for (?:a|my|our)\b|"
    r"mi (?:alumn\w+|hij\w+|estudiante)|"
    r"mein\w* (?:schüler\w*|sohn|tochter|kind)|mon (?:élève|fils)|ma fille)|"
    r"我的?(?:学生|孩子|儿子|女儿)|(?:นักเรียน|ลูก(?:สาว|ชาย)?|เด็ก)|^\W*age\s*:",
    re.IGNORECASE,
)
_PERSON = re.compile(
    rf"\b(?:(?:he|she|they)(?:['’](?:s|re)| is| are) (?:now |about |only |in (?:the )?)?"
    rf"(?:{_NUMBER}|{_ORDINAL} grade)|"
    rf"(?:he|she|they|who) (?:loves?|likes?|enjoys?)|(?:his|her|their) favou?rite)\b",
    re.IGNORECASE,
)
_AGE = re.compile(
    rf"({_NUMBER})[\s-]*(?:years?[\s-]olds?|yrs?|y/?o\b|años|ans\b|jahre)|({_ORDINAL}[\s-]grade)(?:rs?)?\b|"
    rf"\((\d{{1,2}})\)|,\s*({_NUMBER}),|\bage[d:]?\s*({_NUMBER})|"
    rf"(?:\bis|\bist|\btiene|\bare|['’]s|\bturned|\bof|อายุ)\s*(?:now |about |only )?({_NUMBER})|"
    r"([\d一二三四五六七八九十]{1,3}岁)",
    re.IGNORECASE,
)
_LIKES = re.compile(
    r"(?:\b(?:loves?|likes?|enjoys?|adores?|into|(?:crazy|mad|nuts|wild|passionate) about|keen on|"
    r"obsessed with|can['’]?t get enough of|fans? of|interested in|interests?|hobb(?:y|ies)(?: (?:is|are))?|"
    r"favou?rite [\w ]+? is|gustan?|encantan?|mag|liebt|aime)\b:?|喜欢|喜歡|ชอบ)\s*([^.!?;:。！？；\n]+)",
    re.IGNORECASE,
)
_ASKED = (
    r"find|make|write|extract|create|give|show|tell|teach|explain|turn|prepare|look|pull|read|help|get|do"
    r"|can you|could you|here"
)
_MORE_OF_THEM = re.compile(
    r"(?:[,，]|\b(?:and|but|y|und|et)\b)\s*(?:(?:and|y|und|et|who|then|so|please)\s+)*"
    rf"(?:(?:he|she|they|is|has|just|age[ds]?|it|(?:and )?the|{_ASKED}|sie|er|il|elle"
    r"|(?:learn|understand|remember|aprend|entiend|lern|versteh|appren|compren)\w*)\b"
    r"|[看听读动]\w*(?:学|记|理解)).*$",
    re.IGNORECASE,
)
"""What is said of a student, or asked for, after what they like."""
_LEARNER = re.compile(r"^\W*(?:and |who )?(?:he|she|they|sie|er|il|elle|aprende|这个?学生)\b", re.IGNORECASE)
_CLAUSES = re.compile(r"[.!?;:,。！？；，\n]|\b(?:and|but|y|und|et)\b", re.IGNORECASE)
_THEN = re.compile(rf"\b(?:{_ASKED})\b[^:]*:\s+(?=\S)", re.IGNORECASE)
"""What leads from a student to material on the same line."""
_LEADING = re.compile(
    r"^(?:(?:hi|hello|hey|please|ok|okay|thanks)\b[^.!?:\n]{0,20}[.!,]\s*)?[^.!?\n]{0,80}"
    r"\b(?:text|lesson|material|chapter|article|here|following|this)\b[^.!?\n]{0,40}:\s*",
    re.IGNORECASE,
)
_UPLOAD = re.compile(r"\b(?:upload(?:ed)?|attach(?:ed|ment)?|pdf|file)\b", re.IGNORECASE)
_FACTS = re.compile(
    r"\b(?:other|more|different|new|better|another|some|further) facts?\b|"
    r"\b(?:more|facts|something) (?:about|on)\b",
    re.IGNORECASE,
)
_GUIDANCE = re.compile(
    r"\b(?:more|facts?|something|else) (?:about|on)\s+(?:the\s+)?([^.!?\n]+)", re.IGNORECASE
)
_TRAILING = re.compile(r"\s*\b(?:instead|please|now|too|thanks?)\b\s*$", re.IGNORECASE)
_WRITE = re.compile(
    r"\b(?:narrat\w*|script|skript|guion|guión|narración|version)\b|旁白|脚本|讲稿", re.IGNORECASE
)
AGAIN = re.compile(
    r"\b(?:rewrite|redo|again|another|boring|change|short\w*|long\w*|different\w*|improve|new|better|fix|replace"
    r"|easier|simpl\w+|more|less|too)\b",
    re.IGNORECASE,
)
_PARTS: Sequence[tuple[Kind, re.Pattern[str]]] = (
    ("hook", re.compile(r"\b(?:hook|opening|beginning)\b", re.IGNORECASE)),
    ("concept_introduction", re.compile(r"\b(?:introduction|intro|concepts?)\b", re.IGNORECASE)),
    ("process_explanation", re.compile(r"\b(?:process|explanation|middle)\b", re.IGNORECASE)),
    ("conclusion", re.compile(r"\b(?:conclusion|ending|end|last part)\b", re.IGNORECASE)),
)
_WORDS_OF_A_LESSON = 18
_SIGNS_OF_A_LESSON = 25
_BEFORE = 3
_WORDS_ABOUT_STUDENT = 20


@dataclass(frozen=True)
class Message:
    """One message, taken apart."""

    age: str = ""
    interest: str = ""
    content: str = ""
    """Material, or the address of a page; empty where there is none."""
    uploaded: bool = False
    """Whether it speaks of a file."""
    facts: bool = False
    """Whether other facts are wanted."""
    guidance: str = ""
    """What those facts shall be about."""
    script: bool = False
    """Whether a narration is wanted, or another one."""
    parts: tuple[Kind, ...] = ()
    """The segments to write again; empty for all."""
    seconds: float = 0.0
    """How long the narration shall be; 0 where nothing is said of it."""
    style: str = ""
    """How the student learns best, in the words it was said in."""


def taken_apart(text: str) -> Message:
    """Return what a message holds."""
    address = _ADDRESS.search(text)
    rest = text.replace(address[0], " ") if address else text
    about, material = _parted(rest)
    content = address[0] if address else material
    if content and not address:
        rest = about
    parts = segments(rest) if AGAIN.search(rest) else ()
    guidance = _GUIDANCE.search(rest)
    return Message(
        age=first_of(_AGE.search(about)),
        interest=_MORE_OF_THEM.sub("", first_of(_LIKES.search(about))).strip(" ,"),
        content=content,
        uploaded=bool(_UPLOAD.search(rest)),
        facts=bool(_FACTS.search(rest)),
        guidance=_TRAILING.sub("", guidance[1]).strip() if guidance else "",
        script=bool(_WRITE.search(rest) or parts or seconds(rest)),
        parts=parts,
        seconds=seconds(lasting(rest) if content else rest),
        style=_style(about),
    )


def segments(text: str) -> tuple[Kind, ...]:
    """Return the segments that a text names."""
    return tuple(kind for kind, pattern in _PARTS if pattern.search(text))


def _parted(text: str) -> tuple[str, str]:
    """Return what a message says of the student, and the material in it."""
    about: list[str] = []
    material: list[tuple[int, int]] = []
    sentences = _sentences(text)
    for place, (start, end) in enumerate(sentences):
        # A lesson may speak of children too, so only what it begins or ends with is about the student.
        outside = place < _BEFORE or place == len(sentences) - 1
        said = text[start:end]
        if outside and (_is_about_student(said) or lasting(said)):
            leads = _THEN.search(said)
            about.append(said[: leads.end()] if leads else said)
            material += [(start + leads.end(), end)] if leads else []
        else:
            material.append((start, end))
    taught = _span(text, material)
    if _is_lesson(taught):
        return " ".join(about), taught
    return (text if about or _PERSON.search(text) or _style(text) else ""), ""


def _is_about_student(sentence: str) -> bool:
    short = len(sentence.split()) <= _WORDS_ABOUT_STUDENT
    aged, likes = _AGE.search(sentence), _LIKES.search(sentence)
    return short and bool(
        (_STUDENT.search(sentence) and (aged or likes or _style(sentence)))
        or (_PERSON.match(sentence) and aged)
        or (_LEARNER.match(sentence) and _style(sentence))
    )


def _style(text: str) -> str:
    """Return the part of what is said that tells how a student learns best."""
    return next((part.strip() for part in _CLAUSES.split(text) if part and style(part)), "")


def _sentences(text: str) -> list[tuple[int, int]]:
    spoken = find(detected(text) or "english")
    found = sentencex.get_sentence_boundaries(spoken.code if spoken else "en", text)
    bounds = [(one["start_index"], one["end_index"]) for one in found]
    # A line ends a sentence here: people write about the student on one and paste on the next.
    return [
        (start + line.start(), start + line.end())
        for start, end in bounds
        for line in re.finditer(r"[^\n]+", text[start:end])
        if line[0].strip()
    ]


def _span(text: str, sentences: Sequence[tuple[int, int]]) -> str:
    """Return the sentences as they stand in the text, without a line that only leads to them."""
    lines: list[str] = []
    last = -1
    for start, end in sentences:
        joined = last >= 0 and not text[last:start].strip()
        between = text[last:start] if joined else "\n\n" if lines else ""
        lines += [between, text[start:end]]
        last = end
    return _LEADING.sub("", "".join(lines).strip(), count=1).strip()


def _is_lesson(text: str) -> bool:
    # A Thai word has some three letters for one of Chinese, and neither has blanks about it.
    letters = sum(char > "\u2e80" for char in text) + sum("\u0e00" <= char < "\u0f00" for char in text) // 3
    asks = text.rstrip().endswith(("?", "？")) and len(text.split()) < 2 * _WORDS_OF_A_LESSON
    return not asks and (len(text.split()) >= _WORDS_OF_A_LESSON or letters >= _SIGNS_OF_A_LESSON)


def first_of(found: re.Match[str] | None) -> str:
    """Return the first group that a pattern found; empty where it found nothing."""
    return next((group for group in found.groups() if group), "") if found else ""
