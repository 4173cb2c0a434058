"""The kinds of things that commands make and show: one table with the routes of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple


class KindRoute(NamedTuple):
    """A route; its path and body have the fields `id`, `thread`, `stream` and `version` in braces."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """A kind of artefact."""

    noun: str
    """Name of its commands."""
    name: str
    """Kind of the artefact, and name of its short command."""
    graph: str
    one: str
    """With its article, in sentences."""
    id_field: str
    lists: str
    """Path of the list."""
    list_field: str
    columns: Mapping[str, str]
    """Field of each column after the id, by its title; a field that ends in `At` is shown as an age."""
    shows: str
    """Path of the view."""
    activates: KindRoute | None = None
    restores: KindRoute | None = None
    exports: str = ""
    """Path of the file."""
    formats: Mapping[str, str] = field(default_factory=dict)
    """Format of the file by the ending of its name, the usual one first."""
    elsewhere: str = ""
    """The way to another file than these."""
    renders: str = ""
    """Path of the rendering of its sound."""
    deletes: KindRoute | None = None
    stream: str = ""
    """The stream whose versions are meant; empty if a command names it."""
    streams: str = ""
    """Help on the names of streams."""
    example: str
    """A brief."""
    refinement: str
    """A message about what was made."""
    beginning: str = ""
    """A request for one that is empty."""
    state_field: str = ""
    """Field of a thread's values that holds the id; empty if the thread's own id is meant."""
    versioned: bool = True
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of `new` and `chat`, as for argparse, by flag; they are fields of the request."""

    def follow_up(self, reply: Mapping[str, Any]) -> str:
        """Return a message that may follow a reply; a refinement only where there is something to refine."""
        is_empty = [] in (reply.get("scenes"), reply.get("campaigns"))
        return self.beginning if is_empty else self.refinement

    @property
    def item(self) -> str:
        """One of its list, in sentences without an article."""
        return self.noun.removesuffix("s")


_SESSION: Final = "/api/agent-create/session"
_NARRATION: Final = f"{_SESSION}/narration?sessionId={{id}}"
ADS: Final = Kind(
    noun="ads",
    name="ad",
    graph="ad_creation",
    one="an ad",
    id_field="adId",
    state_field="ad_id",
    lists="/api/ads",
    list_field="ads",
    columns={
        "Changed": "updatedAt",
        "Length": "spotSeconds",
        "Market": "market",
        "Language": "language",
        "Title": "title",
    },
    shows="/api/ads/{id}",
    activates=KindRoute("POST", "/api/ads/{id}/{stream}/{version}/activate"),
    restores=KindRoute("POST", "/api/ads/{id}/{stream}/{version}/clone"),
    exports="/api/threads/{thread}/export",
    formats={".jsonl": "jsonl"},
    elsewhere="a sound file is written by `ads listen`",
    renders="/api/ads/{id}/render",
    deletes=KindRoute("DELETE", "/api/ads/{id}"),
    streams="voices, music or sfx",
    example="30 seconds for Miel, a bakery in Lyon that opens at six",
    refinement="make the music more upbeat",
    options={
        "--language": {"help": "Language of the ad [the brief's]."},
        "--market": {"help": "Market of the ad [the brief's, else US]."},
        "--duration": {"help": "Length of the spot in seconds [the brief's, else 30].", "type": float},
    },
)
PAGES: Final = Kind(
    noun="pages",
    name="page",
    graph="page_builder",
    one="a page",
    id_field="pageId",
    state_field="page_id",
    lists="/api/pages",
    list_field="pages",
    columns={"Changed": "updatedAt", "Version": "versionId", "Active": "activeVersionId", "Title": "title"},
    shows="/api/pages/{id}",
    activates=KindRoute("POST", "/api/pages/{id}/versions/{version}/activate"),
    restores=KindRoute("POST", "/api/pages/{id}/versions/{version}/restore"),
    exports="/api/pages/{id}/export",
    formats={".html": "html", ".zip": "zip"},
    deletes=KindRoute("DELETE", "/api/pages/{id}"),
    stream="page",
    example="make the headline teal and add a contact form",
    refinement="undo that",
    options={
        "--select": {
            "dest": "selectedElementId",
            "metavar": "ELEMENT",
            "help": 'Id of the element that "this" means.',
        },
    },
)
LESSONS: Final = Kind(
    noun="lessons",
    name="lesson",
    graph="fact_narration",
    one="a lesson",
    id_field="id",
    lists="/api/agent-create/sessions",
    list_field="sessions",
    columns={"Changed": "updatedAt", "Status": "status", "Title": "title"},
    shows=f"{_SESSION}?sessionId={{id}}",
    restores=KindRoute("POST", _NARRATION, {"action": "restore", "version": "{version}"}),
    exports=_NARRATION,
    renders=f"{_SESSION}/narration/render?sessionId={{id}}",
    formats={".md": "md", ".srt": "srt", ".vtt": "vtt", ".json": "json", ".html": "slides"},
    elsewhere="a sound file is written by `lessons listen`",
    deletes=KindRoute("DELETE", f"{_SESSION}?sessionId={{id}}"),
    stream="narration",
    example="My student is 10 and loves soccer",
    refinement="make the hook shorter",
    options={
        "--review": {"help": "Ask for approval of each narration [no]."},
        "--images": {"help": "Search images for the narration, and ask which to use [no]."},
    },
)
VIDEOS: Final = Kind(
    noun="videos",
    name="video",
    graph="scene_edit",
    one="a video",
    id_field="id",
    state_field="project_id",
    lists="/api/projects",
    list_field="projects",
    columns={"Changed": "updatedAt", "Scenes": "sceneCount", "Title": "title"},
    shows="/api/projects/{id}",
    restores=KindRoute("POST", "/api/projects/{id}/scenes/{stream}/versions/{version}/restore"),
    exports="/api/projects/{id}/export",
    formats={".json": "json", ".otio": "otio"},
    elsewhere="a film is made on the page",
    deletes=KindRoute("DELETE", "/api/projects/{id}"),
    streams="a scene, such as scene-1",
    example="make all scenes faster",
    refinement="make scene 1 slower",
    beginning="make a video about a bakery",
    options={
        "--scene": {
            "dest": "sceneIds",
            "metavar": "SCENE",
            "action": "append",
            "help": "Scene that the text is about; may be repeated.",
        },
    },
)
UNDO: Final = KindRoute("POST", "/api/projects/{id}/undo")
REDO: Final = KindRoute("POST", "/api/projects/{id}/redo")
CAMPAIGNS: Final = Kind(
    noun="campaigns",
    name="ask",
    graph="campaign_search",
    one="a conversation",
    id_field="id",
    lists="/api/campaigns",
    list_field="campaigns",
    columns={"Company": "company", "Channel": "channel", "Offer": "offer"},
    shows="/api/campaigns/{id}",
    exports="/api/campaigns/export",
    formats={".csv": "csv"},
    deletes=KindRoute("DELETE", "/api/campaigns/{id}"),
    example="what are the offers from cash back, premium campaigns",
    refinement="only the urgent ones",
    beginning="what is the most common channel",
    versioned=False,
)
KINDS: Final = (ADS, PAGES, LESSONS, VIDEOS, CAMPAIGNS)
BY_GRAPH: Final[Mapping[str, Kind]] = {kind.graph: kind for kind in KINDS}
