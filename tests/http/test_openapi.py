"""The OpenAPI document of all routes: names of schemas, summaries of operations."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from callsheet.providers import PROVIDERS
from tests.doubles.documented import openapi_document, problems, resolve

VERBS: Final = frozenset(
    [
        *("Activate", "Add", "Answer", "Cancel", "Change", "Check", "Clone", "Compare", "Copy", "Count"),
        *("Create", "Decide", "Delete", "Download", "Edit", "Execute", "Export", "Follow", "Get", "Import"),
        *("Insert", "List", "Lock", "Pause", "Put", "Redo", "Refine", "Repeat", "Restore", "Resume"),
        *("Render", "Retry", "Rewrite", "Save", "Search", "Send", "Set", "Show", "Skip", "Start", "Stream"),
        *("Undo", "Unlock", "Update", "Upload", "Wait"),
    ]
)
"""First words of summaries: the action, as a client sees it."""


def summaries() -> Iterator[tuple[str, str]]:
    """Yield every operation's method with path, and its summary."""
    for path, methods in openapi_document()["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation["summary"]


def test_schemas_are_named_by_their_classes_alone() -> None:
    """FastAPI puts the module's path before the name where two classes share one."""
    names = openapi_document()["components"]["schemas"]
    assert len(names) > 50
    assert not [name for name in names if "__" in name or not re.fullmatch(r"[A-Z]\w+(-(In|Out)put)?", name)]


def test_summaries_name_an_action_and_its_object() -> None:
    for operation, summary in summaries():
        verb, _, target = summary.partition(" ")
        assert verb in VERBS, (operation, summary)
        assert re.match(r"(?!(what|when|where|whether|who|how)\b)\S", target), (operation, summary)
        assert len(summary) <= 100, (operation, summary)
        assert not summary.endswith((".", ":", ";")), (operation, summary)


def test_summaries_are_written_by_hand() -> None:
    """FastAPI makes one of the function's name where there is no docstring: `Create Run On Thread`."""
    assert not [name for name, summary in summaries() if len(summary.split()) > 2 and summary.istitle()]


def test_the_field_that_chooses_a_provider_names_them_all() -> None:
    """A50."""
    text = openapi_document()["components"]["schemas"]["CampaignChat"]["properties"]["provider"][
        "description"
    ]
    assert text.partition(";")[0].split(", ") == [*PROVIDERS]


def test_operation_ids_are_the_names_of_the_routes_in_camel_case() -> None:
    """Clients are generated with them, so they are unique, and change only with their route."""
    ids = [
        operation["operationId"]
        for methods in openapi_document()["paths"].values()
        for operation in methods.values()
    ]
    assert len(ids) == len(set(ids))
    assert not [one for one in ids if not re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", one)]
    assert {"listAds", "chatAboutAd", "createRun", "askAboutCampaigns", "listLessonSessions"} <= {*ids}


def test_errors_are_references_to_one_reply_for_each_status() -> None:
    spec = openapi_document()
    inlined = [
        (operation["operationId"], status)
        for methods in spec["paths"].values()
        for operation in methods.values()
        for status, reply in operation["responses"].items()
        if status[0] in "45" and [*reply] != ["$ref"]
    ]
    # It reports storage that is away in the same form as storage that is there.
    assert inlined == [("showReadiness", "503"), ("showHealth", "503")]
    assert len(spec["components"]["responses"]) <= 30


def test_every_operation_names_its_permission_and_how_to_authenticate() -> None:
    spec = openapi_document()
    assert {*spec["components"]["securitySchemes"]} == {"key", "bearer"}
    for methods in spec["paths"].values():
        for operation in methods.values():
            public = operation["description"].endswith("Needs no permission.")
            assert public or re.search(r"Needs the permission `(read|write|admin)`", operation["description"])
            # Without keys a credential may be left out.
            assert operation["security"] == ([] if public else [{}, {"key": []}, {"bearer": []}])


def test_every_stream_names_its_events_and_the_type_of_their_data() -> None:
    spec = openapi_document()
    streams = [
        content["itemSchema"].get("oneOf") or content["itemSchema"]["anyOf"]
        for methods in spec["paths"].values()
        for operation in methods.values()
        for reply in operation["responses"].values()
        for kind, content in reply.get("content", {}).items()
        if kind == "text/event-stream"
    ]
    assert len(streams) > 10
    for events in streams:
        for event in events:
            assert event["properties"]["event"] != {}
            assert event["properties"]["data"]["contentMediaType"] == "application/json"
            assert "contentSchema" in event["properties"]["data"]


def test_a_reply_that_is_not_as_documented_has_its_faults_named() -> None:
    """The control of the check that every test of the API makes of every reply."""
    voices = {"voiceTracks": [{"id": "track-0", "voiceId": "v", "text": 7}]}
    faults = problems({"$ref": "#/components/schemas/StoredVoices"}, voices)
    assert [one for one in faults if one.startswith("voiceTracks.0.text")]
    assert [one for one in faults if "playAfter" in one]


FREE: Final = {
    "ArtefactVersion": "any workflow's data",
    "Asset": "the client's metadata",
    "AssetCreate": "the client's metadata",
    "ContextEntries": "whatever was gathered",
    "QuestionView": "the question as any graph asks it",
    "UIMessage": "parts of the client's own library",
    "StepCreate": "a step in the words of its workflow",
}
"""Schemas of our own routes with a field that is free, and what is in it; others are arguments of tools."""
ARGUMENTS: Final = frozenset(
    {"arguments", "args", "params", "before", "after", "input", "result", "output", "preview", "details"}
)
"""Fields with the arguments, the result or the error of any tool."""
SCHEMAS_OF_JSON: Final = frozenset({"args_schema", "response_schema", "inputSchema"})


def test_no_field_of_facts_narrations_campaigns_scenes_or_pages_is_a_free_object() -> None:
    spec = openapi_document()
    langgraph = {
        one.rpartition("/")[2]
        for path, methods in spec["paths"].items()
        if not path.startswith("/api/")
        for one in references(spec, methods)
    }
    names = {
        one.rpartition("/")[2]
        for path, methods in spec["paths"].items()
        if path.startswith("/api/")
        for one in references(spec, methods)
    } - langgraph
    assert {
        "Fact",
        "Narration",
        "Campaign",
        "PlanView",
        "Scene-Output",
        "Page",
        "Element",
        "StoredVoices",
    } <= names
    free = {
        (name, field)
        for name in names
        for field, schema in spec["components"]["schemas"][name].get("properties", {}).items()
        if is_free(schema) and field not in ARGUMENTS | SCHEMAS_OF_JSON
    }
    assert {name for name, _ in free} <= FREE.keys(), free


def references(spec: Mapping[str, Any], value: object) -> frozenset[str]:
    """Return all components that a part of the document refers to, directly or not."""
    seen: set[str] = set()
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            reference = part.get("$ref")
            if isinstance(reference, str) and reference not in seen:
                seen.add(reference)
                pending.append(resolve(spec, part))
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return frozenset(one for one in seen if "/schemas/" in one)


def is_free(schema: Mapping[str, Any]) -> bool:
    """Return True for an object of any fields, in a list or beside null, too."""
    if schema.get("type") == "array":
        return any(is_free(one) for one in schema.get("prefixItems") or [schema["items"]])
    if several := schema.get("anyOf"):
        return any(is_free(one) for one in several)
    return schema.get("type") == "object" and schema.get("additionalProperties") is True
