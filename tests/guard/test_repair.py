"""Repair of arguments that a model wrote as almost-JSON (A43, A71, A-R16)."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.providers.tool_calls import MAX_CHARS
from callsheet.state.errors import Invalid
from callsheet.tools.guard.arguments import repair_arguments

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_valid_json_is_never_changed(value):
    assert repair_arguments(json.dumps(value)) == value
    assert repair_arguments(json.dumps(value, ensure_ascii=False)) == value


@settings(deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True),
        st.text(st.characters(codec="utf-8"), max_size=40),
        min_size=1,
        max_size=3,
    )
)
def test_repairing_unquoted_keys_and_a_trailing_comma_changes_no_string(value):
    pairs = ", ".join(f"{key}: {json.dumps(text, ensure_ascii=False)}" for key, text in value.items())
    assert repair_arguments(f"{{{pairs},}}") == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{language: "thai", count: 10,}', {"language": "thai", "count": 10}),
        ("{'a': 'don\\'t', 'b': \"it's\"}", {"a": "don't", "b": "it's"}),
        ('{"a": "b, c: d {e: f},"}', {"a": "b, c: d {e: f},"}),
        ('{"a": [1, 2,], "b": {x: 1,},}', {"a": [1, 2], "b": {"x": 1}}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("```\n{a: 1}\n```", {"a": 1}),
        (" ```json5 \r\n\n{a: 1}```\n", {"a": 1}),
        ("", {}),
        ("  \n", {}),
        ("{}", {}),
    ],
)
def test_the_usual_slips_are_repaired(text, expected):
    assert repair_arguments(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        '{"text": "cut off in the mid',
        '{"a": 1',
        '{"a": }',
        "{a b: 1}",
        "hello",
        "[1, 2]",
        '"text"',
        "42",
        "null",
        '{"a": NaN}',
        '{"a": Infinity,}',
        "{a: [Infinity],}",
        '{"a": 1, a: 2,}',
        "{" * 40 + "}" * 40,
        '{"a": "' + "x" * MAX_CHARS + '"}',
        '{"a": 1} trailing',
        '{"a": ' + "1" * 5_000 + "}",
        '```a b\n{"a": 1}\n```',
    ],
)
def test_arguments_that_are_incomplete_or_ambiguous_are_refused(text):
    with pytest.raises(Invalid) as refused:
        repair_arguments(text)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f'{{"a": "{"x" * MAX_CHARS}"}}', "the arguments have more than 256,000 characters"),
        (
            '{"a": ' + "[" * 40 + "]" * 40 + "}",
            "the arguments are nested 41 levels deep, over the limit of 32",
        ),
    ],
)
def test_a_limit_of_arguments_is_named_with_the_real_figure(text, rule):
    with pytest.raises(Invalid) as refused:
        repair_arguments(text)
    assert refused.value.message == rule
