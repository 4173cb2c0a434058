"""docs/offline.md lists the offline model's grammar, and every example in it is understood."""

import pytest

from callsheet.providers.offline.grammar import match
from tests.models.offline_document import FILE, SECTIONS, document

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
