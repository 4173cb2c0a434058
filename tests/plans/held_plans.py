"""A server whose tools wait until the test lets them go on, and the executions of its plans over REST."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx

from callsheet.graphs.ad_creation import AdCreation
from callsheet.graphs.fact_narration import FactNarration
from callsheet.graphs.page_builder import PageBuilder
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.server.app import create_app
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Unavailable
from callsheet.tools import REGISTRY
from callsheet.tools.call import Call
from callsheet.tools.registry import Tool
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.served import app_client
from tests.doubles.waiting import eventually


class Gates:
    """Gates at which tools wait, by the tool's name, and the tools that fail."""

    def __init__(self) -> None:
        self.closed: dict[str, asyncio.Event] = {}
        self.closed_after: set[str] = set()
        """Tools whose calls never return after their effect."""
        self.done = asyncio.Event()
        """Set once such a call has had its effect."""
        self.failing: set[str] = set()
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        """Name and arguments of each call that began, in order."""

    def close(self, *names: str) -> None:
        """Let the calls of these tools wait."""
        self.closed |= {name: asyncio.Event() for name in names}

    def open(self) -> None:
        """Let all calls go on."""
        for gate in self.closed.values():
            gate.set()

    def behind(self, tool: Tool) -> Tool:
        """Return a tool that passes a gate before it does its work."""

        async def run(args: Any, call: Call) -> Any:
            self.calls.append((tool.name, args.model_dump()))
            if gate := self.closed.get(tool.name):
                await gate.wait()
            if tool.name in self.failing:
                raise Unavailable(f"{tool.name} is away", remedy="try again later")
            result = await tool.run(args, call)  # type: ignore[misc, arg-type]  # it is asynchronous
            if tool.name in self.closed_after:
                self.done.set()
                await asyncio.Event().wait()
            return result

        return replace(tool, run=run)


class Plans:
    """The plans of one thread."""

    def __init__(self, http: httpx.AsyncClient, model: ChatDouble, graph: str, thread: str) -> None:
        self.http, self.model, self.graph, self.thread = http, model, graph, thread

    async def call(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        reply = await self.http.request(method, path, **options)
        assert reply.status_code == status, reply.text
        return reply.json() if reply.content else None

    async def start(
        self, *calls: tuple[str, str, dict[str, Any]], parallel: int = 1, closes: bool = True
    ) -> str:
        """Have the model plan these calls (id, tool, arguments); return the plan's id once it is executed.

        The model says a last word after it, unless the plan never ends.
        """
        earlier = await self.plan()
        await self.ask(*calls, parallel=parallel, closes=closes)
        return await self.next_plan(earlier)

    async def ask(
        self, *calls: tuple[str, str, dict[str, Any]], parallel: int = 1, closes: bool = True
    ) -> None:
        """Send a message that the model answers with a plan of these calls."""
        self.model.script(
            Say(calls=[(name, tool, json.dumps(given)) for name, tool, given in calls]),
            *([Say("Done.")] if closes else []),
        )
        message = {"messages": [{"role": "user", "content": "Do it"}]}
        await self._run(input=message, context={"provider": "openai", "parallel": parallel})

    async def answer(self, decision: Any, parallel: int = 1) -> None:
        """Answer the question that waits."""
        context = {"provider": "openai", "parallel": parallel}
        await self._run(command={"resume": decision}, context=context)

    async def _run(self, **fields: Any) -> None:
        body = {"assistant_id": self.graph, "if_not_exists": "create", "stream_mode": ["custom"], **fields}
        await self.call("POST", f"/threads/{self.thread}/runs", json=body)

    async def next_plan(self, earlier: str = "") -> str:
        """Return the id of the plan after an earlier one, once it is executed."""
        names: list[str] = []

        async def is_executing() -> bool:
            names[:] = [name for name in [await self.plan()] if name not in {"", earlier}]
            return bool(names) and (await self.http.get(f"/api/executions/{names[0]}")).status_code == 200

        await eventually(is_executing, "the plan is executed")
        return names[0]

    async def plan(self) -> str:
        """Return the id of the plan in the thread's state; empty for none."""
        reply = await self.http.get(f"/threads/{self.thread}/state")
        values = reply.json()["values"] if reply.status_code == 200 else {}
        return str((values.get("plan") or {"id": ""})["id"])

    async def execution(self, name: str) -> dict[str, Any]:
        return dict(await self.call("GET", f"/api/executions/{name}"))

    async def statuses(self, name: str) -> dict[str, str]:
        return {step["id"]: step["status"] for step in (await self.execution(name))["plan"]["steps"]}

    async def until(self, name: str, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Return the execution once it is as wanted."""
        newest: dict[str, Any] = {}

        async def is_as_wanted() -> bool:
            reply = await self.http.get(f"/api/executions/{name}")
            newest.update(reply.json())
            return reply.status_code == 200 and bool(wanted(newest))

        await eventually(is_as_wanted, f"execution {name} is as wanted: {newest}")
        return newest

    async def until_step(self, name: str, step: str, status: str) -> dict[str, Any]:
        return await self.until(
            name,
            lambda one: any((each["id"], each["status"]) == (step, status) for each in one["plan"]["steps"]),
        )

    async def idle(self, status: str = "idle") -> dict[str, Any]:
        """Return the thread's state once no run is active and the thread has this status."""

        async def over() -> bool:
            return bool((await self.call("GET", f"/threads/{self.thread}"))["status"] == status)

        await eventually(over, f"the thread is {status}")
        return dict((await self.call("GET", f"/threads/{self.thread}/state"))["values"])

    async def wait_for_end(self, name: str) -> dict[str, Any]:
        done = await self.until(name, lambda one: one["success"] is not None)
        await self.idle()
        return done


_WORKFLOWS: Mapping[str, tuple[type[WorkflowSpec[Any]], str]] = {
    "ad_creation": (AdCreation, "ad"),
    "page_builder": (PageBuilder, "page"),
    "fact_narration": (FactNarration, "lesson"),
}


@asynccontextmanager
async def served_with_gates(url: str, gates: Gates) -> AsyncIterator[httpx.AsyncClient]:
    """Serve ads, pages and lessons whose tools pass the gates."""
    graphs = {
        name: workflow(
            {key: gates.behind(tool) for key, tool in REGISTRY.of(kind).items()},
            REGISTRY.of(kind, internal=True),
        ).graph
        for name, (workflow, kind) in _WORKFLOWS.items()
    }
    app = create_app(Settings(redis_url=url), graphs)
    async with app.router.lifespan_context(app), app_client(app) as http:
        yield http
        gates.open()
