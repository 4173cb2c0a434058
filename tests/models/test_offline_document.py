"""docs/offline.md lists the offline model's grammar, and every example in it is understood."""

from pathlib import Path

import pytest

from callsheet.providers.offline import grammar
from callsheet.providers.offline.grammar import match
from tests.models.offline_document import FILE, SECTIONS, document, words_of

_SOURCES = {".py", ".toml"}
FORMS = [pytest.param(forms, form, id=form.name) for _, _, forms in SECTIONS for form in forms]


def test_the_document_is_generated_from_the_grammar():
    assert FILE.read_text(encoding="utf-8") == document(), (
        "write it with python -m tests.models.offline_document"
    )


@pytest.mark.parametrize(("forms", "form"), FORMS)
def test_each_example_is_in_the_document_and_matches_its_form(forms, form):
    assert f"| `{form.name}` | {form.example} |" in FILE.read_text(encoding="utf-8")
    assert [request.form for request in match(form.example, forms)] == [form.name]


def test_the_grammar_has_a_limited_number_of_forms():
    *first, videos, campaigns = (len(forms) for _, _, forms in SECTIONS)
    assert sum(first) <= 42
    assert videos + campaigns <= 22


def test_the_model_has_a_limited_size():
    """A demonstration and a test double: a sentence that it declines is no reason to grow."""
    folder = Path(grammar.__file__).parent
    lines = [
        len(path.read_text("utf-8").splitlines()) for path in folder.rglob("*") if path.suffix in _SOURCES
    ]
    assert sum(lines) <= 3_000


@pytest.mark.parametrize("expression", [r"[\w ]{1,40}", r"[a-z]+", r"red|\S{1,9}", "[^.]{2,9}"])
def test_open_words_of_a_slot_without_a_description_are_no_closed_list(expression):
    with pytest.raises(ValueError, match="neither a closed list nor described"):
        words_of("topic", expression)


def test_the_words_of_a_closed_list_are_shown_as_a_pattern():
    assert words_of("look", r"(?:a bit )?(?:faster|slower)|colou?r \d{1,2}") == (
        "[a bit ](faster|slower)|colo[u]r {number}"
    )
