"""The OpenAPI document of all routes: names of schemas, summaries of operations."""

import re
from collections.abc import Iterator
from typing import Final

from callsheet.providers import PROVIDERS
from tests.doubles.served import openapi_document

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
