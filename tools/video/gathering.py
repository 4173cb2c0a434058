"""Gathers context for later steps: the style of a scene, examples, trends, the web."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from callsheet.providers import search_engines
from callsheet.state.errors import CallsheetError, Invalid
from callsheet.state.video import style
from callsheet.state.video.project import SCENES
from callsheet.state.video.style import matching_examples, trends
from callsheet.storage import current
from callsheet.storage.video.context import SEARCH_TTL_S, ContextStore
from callsheet.tools.call import Call
from callsheet.tools.registry import tool
from callsheet.tools.video.scenes import SceneArguments, SceneId, read_scene

TOP: Final = 3
"""Results of a query that are looked at."""


class GatherContext(SceneArguments):
    """Arguments of `contextGatherer`."""

    queries: list[Annotated[str, Field(min_length=1, max_length=300)]] = Field(default=[], max_length=10)
    sources: list[Literal["web", "examples", "trends"]] = Field(default=["web", "examples", "trends"])
    targetSceneId: SceneId | None = None
    extractStyle: bool = False


@tool(schema=GatherContext, display="Gathering context", reads=(SCENES,), internal=True)
async def contextGatherer(args: GatherContext, call: Call) -> dict[str, Any]:  # noqa: N802 -- its name on the wire
    """Read the style of a scene, or look for examples, trends and web pages, for later steps."""
    if not args.targetSceneId and not args.queries:
        raise Invalid("nothing to gather is named", remedy="Give `queries`, or `targetSceneId`")
    store = ContextStore(await current(), call.scope.artefact, call.scope.owner)
    gathered: dict[str, Any] = {}
    result: dict[str, Any] = {"webResults": [], "examples": [], "trends": [], "relevantStyles": []}
    if args.targetSceneId:
        held = await read_scene(call, args.targetSceneId)
        described = style.describe(style.extract_style(held.scene))
        gathered[f"style:{args.targetSceneId}"] = described
        result["relevantStyles"] = [{"sceneId": args.targetSceneId, **described}]
    if args.queries:
        await _search(args, store, result)
        gathered |= _entries(result)
    for key, value in gathered.items():
        await store.set(key, value)
    summary = _summary(args, result)
    result |= {"colorPalettes": _palettes(result), "animations": _animations(result), "summary": summary}
    return {**result, "generatedContext": [*gathered], "message": summary}


async def _search(args: GatherContext, store: ContextStore, result: dict[str, Any]) -> None:
    if "web" in args.sources:
        result["webResults"] = list(await asyncio.gather(*(_web(store, query) for query in args.queries)))
    if "examples" in args.sources:
        result["examples"] = [one for query in args.queries for one in matching_examples(query, TOP)]
        result["relevantStyles"] += [{"example": one["name"], **one["style"]} for one in result["examples"]]
    if "trends" in args.sources:
        result["trends"] = trends(args.queries)


async def _web(store: ContextStore, query: str) -> dict[str, Any]:
    """Return the first results of a search, from the cache if it is not an hour old."""
    key = f"search:{query}"
    if (cached := (await store.search(key)).get(key)) is not None:
        return dict(cached)
    try:
        results = (await search_engines.web_search().top(query))[:TOP]
    except CallsheetError as error:
        return {
            "query": query,
            "results": [],
            "extractedPatterns": [],
            "problem": f"{error.message}; {error.remedy}",
        }
    patterns = style.design_patterns([f"{one['title']} {one['summary']}" for one in results])
    answer = {"query": query, "results": results, "extractedPatterns": patterns}
    await store.set(key, answer, ttl_s=SEARCH_TTL_S)
    for one in results:
        await store.set(f"web:{one['url']}", {**one, "query": query}, ttl_s=SEARCH_TTL_S)
    return answer


def _entries(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that later steps read."""
    return {
        "gathered:latest": {name: result[name] for name in ("webResults", "examples", "trends")},
        "gathered:styles": result["relevantStyles"],
        "gathered:colors": _palettes(result),
        "gathered:animations": _animations(result),
    }


def _palettes(result: Mapping[str, Any]) -> list[list[str]]:
    return [[part["color"] for part in one["palette"]][:6] for one in result["relevantStyles"]]


def _animations(result: Mapping[str, Any]) -> list[str]:
    return style.common(result["relevantStyles"], "motions", 6)


def _summary(args: GatherContext, result: Mapping[str, Any]) -> str:
    parts: list[str] = []
    if args.targetSceneId:
        parts.append(f"read the style of {args.targetSceneId}")
    if examples := result["examples"]:
        parts.append(f"examples: {', '.join(dict.fromkeys(one['name'] for one in examples))}")
    pages: Sequence[Mapping[str, Any]] = result["webResults"]
    if count := sum(len(one["results"]) for one in pages):
        parts.append(f"{count} web results")
    if missing := [one["query"] for one in pages if "problem" in one]:
        parts.append(f"the web could not be searched for {', '.join(map(repr, missing))}")
    return "; ".join(parts) or "nothing was there"


TOOLS: Final = (contextGatherer,)
