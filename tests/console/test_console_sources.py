"""The page's sources and files are small, and its types are those of the server's document."""

import gzip
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from callsheet.server.console.build import FOLDER, STATIC
from callsheet.state.video.plan import RULES
from tests.console.browser import built_page
from tests.doubles.documented import loaded_app

SOURCE_LINES: Final = 7_700
FILE_LINES: Final = 400
FILM_LINES: Final = 200
"""Of the encoder of films, a program of its own that the page loads when a film is wanted."""
FIRST_KB: Final = 60
"""Of the scripts that every view loads."""
SIZES_KB: Final = {"app.css": 15, "film-*.js": 51}
SHAPES: Final = {
    "types.ts": {
        "WorkflowInfo": "SessionWorkflow",
        "Session": "ConsoleSession",
        "ArtefactRef": "ArtefactRef",
        "ArtefactTitle": "ArtefactTitle",
        "ListedArtefact": "ListedArtefact",
        "Question": "QuestionView",
        "QuestionPage": "QuestionList",
        "RunningRun": "RunningRun",
        "RecentThread": "RecentThread",
        "TurnReceipt": "Receipt",
        "ThreadState": "ThreadStateReply",
        "Thread": "ThreadReply",
        "Run": "RunReply",
        "Receipt": "ToolExecution",
        "PlanStep": "PlanStep",
        "Execution": "ExecutionView",
        "StreamHead": "ArtefactStream",
        "ArtefactView": "ArtefactView",
        "Version": "ArtefactVersion",
        "VersionDiff": "VersionDiff",
    },
    "panels/ad.tsx": {"Ad": "AdView", "Voice": "VoiceView", "Track": "VoiceTrack"},
    "panels/ad_mixer.tsx": {"Mixer": "Mixer"},
    "panels/ad_timeline.tsx": {"Timeline": "Timeline"},
    "panels/campaign_data.ts": {"Campaign": "Campaign", "Group": "AggregationGroup"},
    "panels/lesson.tsx": {"Lesson": "SessionView", "Fact": "Fact", "Segment": "Segment"},
    "panels/page.tsx": {"PageView": "PageView"},
    "panels/page_elements.ts": {"PageElement": "Element"},
    "panels/video.tsx": {"Project": "ProjectView", "Scene": "SceneView"},
    "views/campaigns.tsx": {"CampaignPage": "CampaignPage"},
    "views/campaign_import.tsx": {"Report": "ImportReport"},
    "tools.ts": {"ToolInfo": "ToolView"},
    "views/settings.tsx": {"Tool": "ToolView", "Health": "Health", "Usage": "UsageReport"},
}
"""Interfaces of the page by file, and the schemas that they are the used part of."""
CASES: Final = [(file, name, schema) for file, shapes in SHAPES.items() for name, schema in shapes.items()]
_IMPORT: Final = re.compile(r"""(?:from|import)\s?"\./([\w-]+\.js)\"""")
_FIELD: Final = re.compile(r"(\w+)(\??): ((?:\{[^}]*\}|\([^)]*\)|<[^>]*>|[^;{}(<])+)(?:;|$)")
_NULL: Final = re.compile(r"null|^(Json|any|unknown)$")
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)


@cache
def schemas() -> Mapping[str, Any]:
    document: Mapping[str, Any] = loaded_app().openapi()["components"]["schemas"]
    return document


def fields_of(file: str, interface: str) -> dict[str, tuple[bool, str]]:
    """Return the fields of an interface: whether each may be missing, and its type."""
    text = _COMMENT.sub("", (FOLDER / "src" / file).read_text())
    begin = re.search(rf"interface {interface}\b[^{{]*\{{", text)
    assert begin, f"{file} has no interface {interface}"
    depth, end = 1, begin.end()
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    body = text[begin.end() : end - 1].strip()
    return {name: (bool(mark), kind.strip()) for name, mark, kind in _FIELD.findall(body)}


def allows_null(schema: Mapping[str, Any]) -> bool:
    """Return True if null is a value of the schema."""
    options = schema.get("anyOf", schema.get("oneOf", ()))
    return schema.get("type") == "null" or any(one.get("type") == "null" for one in options)


@pytest.mark.parametrize(("file", "interface", "schema"), CASES)
def test_a_type_of_the_page_is_part_of_what_the_server_documents(
    file: str, interface: str, schema: str
) -> None:
    documented = schemas()[schema]
    fields = fields_of(file, interface)
    assert fields, f"{interface} has no fields"
    unknown = fields.keys() - documented["properties"].keys()
    assert not unknown, f"{schema} has no such fields"
    nullable = {name for name in fields if allows_null(documented["properties"][name])}
    known = {name for name, (optional, kind) in fields.items() if optional or _NULL.search(kind)}
    assert not nullable - known, f"these fields of {schema} may be null"


def test_the_page_offers_the_parameters_of_a_waiting_video_step_that_the_server_edits() -> None:
    [listed] = re.findall(r"EDITABLE = new Set\((\[[^\]]*\])\)", (FOLDER / "src" / "tools.ts").read_text())
    assert sorted(json.loads(listed)) == sorted(RULES.editable or ())


def test_the_sources_of_the_page_are_few_and_short() -> None:
    files = [file for file in (FOLDER / "src").rglob("*") if file.suffix in {".ts", ".tsx", ".css"}]
    lengths = {file: len(file.read_text().splitlines()) for file in files}
    assert sum(lengths.values()) <= SOURCE_LINES
    assert max(lengths.values()) <= FILE_LINES
    assert len((FOLDER / "film" / "film.ts").read_text().splitlines()) <= FILM_LINES


def test_what_appears_takes_the_focus_once() -> None:
    """A function that is made at each rendering would take it from the button that somebody has reached."""
    for file in (FOLDER / "src").rglob("*.tsx"):
        assert not re.search(r"ref=\{\(.*focus\(", file.read_text()), file


def first_scripts() -> list[Path]:
    """Return the page's script and those that it imports at its start."""
    folder, names = built_page() / STATIC, ["app.js"]
    for name in names:
        imported = _IMPORT.findall((folder / name).read_text())
        names += [one for one in imported if one not in names]
    return [folder / name for name in names]


@pytest.mark.slow
def test_a_browser_loads_little() -> None:
    first = [len(gzip.compress(file.read_bytes())) for file in first_scripts()]
    assert len(first) > 1, "what is loaded later shares a script with the page"
    assert sum(first) <= FIRST_KB * 1000
    for name, limit_kb in SIZES_KB.items():
        newest = max((built_page() / STATIC).glob(name), key=lambda file: file.stat().st_mtime)
        assert len(gzip.compress(newest.read_bytes())) <= limit_kb * 1000
