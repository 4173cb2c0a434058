"""Usual slips in arguments that models write: most are corrected, a few cost a round (A43, C42)."""

import json
import re
from typing import Any

import pytest

from callsheet.tools import REGISTRY
from callsheet.tools.guard.arguments import read_arguments, repair_arguments
from callsheet.tools.registry import definitions
from tests.doubles.served import VOICE

TRACK = {"voiceId": VOICE, "text": "Bread at four."}
MUSIC = {"prompt": "gentle piano"}
SFX = {"prompts": [{"description": "an oven door"}]}
SLIPS: list[tuple[str, str, str, dict[str, Any] | None]] = [
    (
        "null for an optional field",
        "create_music_draft",
        '{"prompt": "gentle piano", "duration": null}',
        MUSIC,
    ),
    (
        "null for an optional field inside",
        "create_voice_draft",
        json.dumps({"tracks": [TRACK | {"speed": None, "playAfter": None}]}),
        {"tracks": [TRACK]},
    ),
    (
        "null for a field with a default",
        "search_voices",
        '{"language": "thai", "count": null}',
        {"language": "thai"},
    ),
    (
        "a number in a string",
        "search_voices",
        '{"language": "thai", "count": "5"}',
        {"language": "thai", "count": 5},
    ),
    (
        "a decimal in a string",
        "create_music_draft",
        '{"prompt": "gentle piano", "duration": "20.5"}',
        MUSIC | {"duration": 20.5},
    ),
    ("a list in a string", "create_sfx_draft", json.dumps({"prompts": json.dumps(SFX["prompts"])}), SFX),
    ("objects in strings", "create_sfx_draft", json.dumps({"prompts": [json.dumps(SFX["prompts"][0])]}), SFX),
    (
        "a text for an object with one required field",
        "create_sfx_draft",
        '{"prompts": ["an oven door"]}',
        SFX,
    ),
    ("an object instead of a list", "create_sfx_draft", json.dumps({"prompts": SFX["prompts"][0]}), SFX),
    ("an unknown extra field", "create_music_draft", '{"prompt": "gentle piano", "mood": "warm"}', MUSIC),
    (
        "an unknown field inside",
        "create_voice_draft",
        json.dumps({"tracks": [TRACK | {"tone": "warm"}]}),
        {"tracks": [TRACK]},
    ),
    ("the artefact's id", "create_music_draft", '{"prompt": "gentle piano", "pageId": "x"}', MUSIC),
    ("no id of the artefact", "get_current_state", "{}", {}),
    (
        "an enum in another case",
        "create_music_draft",
        '{"prompt": "gentle piano", "provider": "Loudly"}',
        MUSIC | {"provider": "loudly"},
    ),
    (
        "an enum in another spelling",
        "create_sfx_draft",
        '{"prompts": [{"description": "an oven door", "placement": {"type": "after_voice", "index": 0}}]}',
        {"prompts": [{"description": "an oven door", "placement": {"type": "afterVoice", "index": 0}}]},
    ),
    (
        "names in snake case",
        "create_voice_draft",
        json.dumps({"tracks": [{"voice_id": VOICE, "text": "Bread at four."}]}),
        {"tracks": [TRACK]},
    ),
    (
        "names in another case",
        "search_voices",
        '{"Language": "thai", "Count": 5}',
        {"language": "thai", "count": 5},
    ),
    ("arguments inside arguments", "create_music_draft", '{"arguments": {"prompt": "gentle piano"}}', MUSIC),
    (
        "arguments as text inside arguments",
        "create_music_draft",
        '{"arguments": "{\\"prompt\\": \\"gentle piano\\"}"}',
        MUSIC,
    ),
    ("a trailing comma", "create_music_draft", '{"prompt": "gentle piano",}', MUSIC),
    ("single quotes", "create_music_draft", "{'prompt': 'gentle piano'}", MUSIC),
    ("unquoted names", "create_music_draft", '{prompt: "gentle piano"}', MUSIC),
    ("a fence", "create_music_draft", '```json\n{"prompt": "gentle piano"}\n```', MUSIC),
    ("text that is encoded twice", "create_music_draft", json.dumps(json.dumps(MUSIC)), MUSIC),
    (
        "a number instead of text",
        "modify_element",
        '{"elementId": "heading-1", "modifications": {"content": 2026}}',
        {"elementId": "heading-1", "modifications": {"content": "2026"}},
    ),
    ("a required field is missing", "create_music_draft", '{"duration": 20}', None),
    (
        "an enum that does not exist",
        "create_music_draft",
        '{"prompt": "gentle piano", "provider": "suno"}',
        None,
    ),
]
"""A slip, the tool, the arguments as written and as corrected; None for a slip that costs a round."""


@pytest.mark.parametrize(("slip", "tool", "raw", "expected"), SLIPS, ids=[one[0] for one in SLIPS])
def test_a_usual_slip_in_arguments_is_corrected_or_refused_by_the_schema(
    slip: str, tool: str, raw: str, expected: dict[str, Any] | None
) -> None:
    del slip
    schema = REGISTRY[tool].schema
    arguments, _ = read_arguments(schema, repair_arguments(raw))
    # The server adds the id of the artefact, which the model does not write.
    artefact_id = {REGISTRY[tool].subject: "ad-1"} if REGISTRY[tool].subject else {}
    if expected is None:
        with pytest.raises(ValueError, match="validation error"):
            schema.model_validate(arguments | artefact_id)
        return
    assert arguments == expected
    schema.model_validate(arguments | artefact_id)


def test_at_most_three_of_the_usual_slips_cost_a_round() -> None:
    assert len(SLIPS) == 27
    assert sum(expected is None for *_, expected in SLIPS) <= 3


def test_unknown_arguments_are_removed_and_named_and_ambiguous_values_stay_unchanged() -> None:
    search = REGISTRY["search_voices"].schema
    arguments, ignored = read_arguments(
        search, {"language": "thai", "tone": 1, "adId": "x", "LANGUAGE": "lao"}
    )
    assert (arguments, ignored) == ({"language": "thai"}, ["tone", "LANGUAGE"])
    arguments, _ = read_arguments(search, {"language": ["thai"], "count": "five", "style": True})
    assert arguments == {"language": ["thai"], "count": "five", "style": True}
    upload = REGISTRY["upload_file"].schema
    arguments, _ = read_arguments(upload, {"fileType": "photo", "fileName": "a.png", "allowedFormats": "png"})
    assert arguments == {"fileType": "photo", "fileName": "a.png", "allowedFormats": ["png"]}
    style = {
        "elementId": "x",
        "modifications": {"style": {"color": None, "Color": "red"}, "content": "{not json"},
    }
    assert read_arguments(REGISTRY["modify_element"].schema, style)[0] == style


def test_definitions_for_models_contain_neither_ids_nor_requirement_numbers() -> None:
    definitions_json = json.dumps(
        definitions({name: each_tool for name, each_tool in REGISTRY.items() if not each_tool.internal})
    )
    for hidden in ("adId", "sessionId", '"pageId"', "set by the server"):
        assert hidden not in definitions_json
    assert not re.search(r"\b[A-E]-?R?\d+\b(?!\.)", definitions_json)
