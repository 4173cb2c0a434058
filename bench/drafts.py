"""Time from a brief to three drafts, over HTTP on loopback, with the offline model.

The floor is the same offline model and the same tool functions on the same briefs in this process, with a
dictionary in place of storage: no HTTP, no graph, no checkpoints, no receipts, nothing persistent.
Ours is the complete `POST /api/ai/generate` on its own server, with every step and
version written to Valkey. Both take turns, brief by brief.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from bench import size
from bench._servers import ReadinessProbe, free_port, running, serve_command
from callsheet import providers
from callsheet.graphs import ad_creation
from callsheet.state.ads import brief
from callsheet.state.ads.ad import AdState
from callsheet.state.model_input import model_input
from callsheet.state.versions import Version
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion, Stream
from callsheet.storage.artefacts.receipts import StepFence
from callsheet.tools.call import Call, Scope
from callsheet.tools.guard import outcome
from callsheet.tools.registry import definition

GENERATES: Final = size(120, short=4)
_WARM: Final = size(5, short=1)
_DRAFTS: Final = {"voices": "v1", "music": "v1", "sfx": "v1"}
_CLIENTS: Final = (
    "Nordlys, a bakery in Oslo that opens at six",
    "Ivory Dental, a family dentist with evening hours",
    "Second Chapter, a second-hand bookshop by the harbour",
    "Hush, an app that finds quiet places to work in the city",
)
_SECONDS: Final = (15, 30, 45)
_LANGUAGES: Final = ("english", "polish", "spanish")


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as folder:
        port = free_port()
        environment = {"CALLSHEET_DATA_DIR": folder, "REDIS_URL": "", "OPENAI_API_KEY": ""}
        with running(serve_command(port), port, Path(folder), environment) as server:
            server.ready_s(ReadinessProbe("/api/ads"))
            ours, floor = _measure(server.url)
    ratios = sorted(one / other for one, other in zip(ours, floor, strict=True))
    cuts = statistics.quantiles(ratios, n=20)
    print(f"{'':<26}{'p50':>9}{'p99':>9}")
    _print("POST /api/ai/generate", ours)
    _print("model and tools alone", floor)
    print(
        f"ratio {statistics.median(ratios):.1f}x (p5 {cuts[0]:.1f}, p95 {cuts[-1]:.1f}), {GENERATES} briefs"
    )
    return 0


def _print(row: str, took_s: Sequence[float]) -> None:
    cuts = statistics.quantiles(took_s, n=100)
    print(f"{row:<26}{cuts[49] * 1000:>6.1f} ms{cuts[98] * 1000:>6.1f} ms")


def _measure(url: str) -> tuple[list[float], list[float]]:
    ours, floor = [], []
    with httpx.Client(base_url=url, timeout=60) as client, asyncio.Runner() as runner:
        for i in range(_WARM + GENERATES):
            fields = {
                "clientDescription": f"{_CLIENTS[i % len(_CLIENTS)]}, number {i}",
                "duration": _SECONDS[i % len(_SECONDS)],
                "language": _LANGUAGES[i % len(_LANGUAGES)],
            }
            over_http_s, floor_s = _over_http(client, fields), runner.run(_without_server(fields))
            if i >= _WARM:
                ours.append(over_http_s)
                floor.append(floor_s)
    return ours, floor


def _over_http(client: httpx.Client, fields: Mapping[str, Any]) -> float:
    body = {"adId": f"ad-{uuid.uuid4()}", "brief": fields, "provider": "offline"}
    start_s = time.perf_counter()
    reply = client.post("/api/ai/generate", json=body)
    took_s = time.perf_counter() - start_s
    assert reply.json()["drafts"] == _DRAFTS, reply.text
    return took_s


async def _without_server(fields: Mapping[str, Any]) -> float:
    start_s = time.perf_counter()
    parsed_brief = brief.parse(fields)
    state = AdState(messages=[HumanMessage(brief.message(parsed_brief), id="0")], brief=parsed_brief)
    facts = ad_creation.WORKFLOW.view.facts(state)
    scope = Scope("local", "thread", "ad", "ad-1", run="run", task="task", plan="plan", epoch=0, facts=facts)
    artefact = _AdInMemory(facts)
    tools = ad_creation.WORKFLOW.tools
    model = providers.load("offline").bind_tools([definition(tool) for tool in tools.values()])
    messages: list[AnyMessage] = state["messages"]
    while True:
        answer = await model.ainvoke(model_input(ad_creation.WORKFLOW.prompt, messages))
        assert isinstance(answer, AIMessage)
        messages.append(answer)
        if not answer.tool_calls:
            break
        for call in answer.tool_calls:
            tool, call_id = tools[call["name"]], str(call["id"])
            tool_call = Call(scope, artefact, call_id, tool.writes, StepFence(call_id, "0:1"))
            run: Any = tool.run
            # The guard names the artefact, which the model is not asked for.
            subject = {tool.subject: "ad-1"} if tool.subject else {}
            output = await run(tool.schema.model_validate({**subject, **call["args"]}), tool_call)
            messages.append(outcome.tool_message(call_id, tool.name, output))
    took_s = time.perf_counter() - start_s
    assert {name: stream.versions[-1].id for name, stream in artefact.stored.items()} == _DRAFTS
    return took_s


class _AdInMemory(Artefact):
    """An ad stored in a dictionary."""

    def __init__(self, facts: Mapping[str, str]) -> None:
        self.kind, self.id = "ad", "ad-1"
        self.stored_id = self.id
        self.facts = facts
        self.stored: dict[str, Stream] = {}

    async def newest_of(self, names: Sequence[str], count: int = 1) -> dict[str, Stream]:
        """Return the stored streams."""
        del count
        return {name: self.stored.get(name, Stream()) for name in names}

    async def newest_by_count(self, counts: Mapping[str, int]) -> dict[str, Stream]:
        """Return the stored streams."""
        return await self.newest_of([*counts])

    async def create_versions(
        self, new: Sequence[NewVersion], fence: StepFence | None = None, *, named: bool = False
    ) -> dict[str, Any]:
        """Store versions as the product's storage would."""
        del fence, named
        names = [self._store(one) for one in new]
        return {"versionId": names[0], **new[0].result}

    def _store(self, new: NewVersion) -> str:
        earlier = self.stored.get(new.stream, Stream()).versions
        name = f"v{len(earlier) + 1}"
        data = json.loads(json.dumps(new.data))
        version = Version(name, new.stream, data, 0, new.created_by, new.parent, new.batch)
        self.stored[new.stream] = Stream((*earlier, version))
        return name


if __name__ == "__main__":
    sys.exit(main())
