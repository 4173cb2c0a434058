"""A scripted model endpoint for videos, and a client of a project over REST."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from tests.doubles.chat_double import ChatDouble, Fail, Recorded, Reply, Say
from tests.doubles.waiting import eventually

SCENES = [
    {
        "name": f"Scene {number}",
        "durationInFrames": frames,
        "background": {"color": color},
        "elements": [{"id": "title", "kind": "text", "text": text, "animations": [{"kind": "fade"}]}],
        "palette": [color, "#ffffff"],
    }
    for number, (frames, color, text) in enumerate(
        [(60, "#111111", "One"), (90, "#222222", "Two"), (120, "#333333", "Three"), (150, "#444444", "Four")],
        1,
    )
]
"""Scenes that differ in length, colour and text."""


class PlanningModel(ChatDouble):
    """A model endpoint that submits scripted plans, and fills in forms by a rule.

    A step whose prompt contains a name in `held` waits until the test releases it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.plans: list[Mapping[str, Any] | str] = []
        """Answers to the planner, in order: plans, or texts instead of a plan."""
        self.patch: Callable[[str], Mapping[str, Any] | Fail] = lambda _: {"background": "#abcdef"}
        """The answer to a step's prompt: a change of the scene, or a failure."""
        self.held: dict[str, threading.Event] = {}
        self.prompts: list[str] = []
        """Prompts of the steps that began, in order."""
        self.outlines: list[str] = []
        """Last user message of each request of the planner."""
        self._count = 0

    def hold(self, *names: str) -> None:
        """Make steps wait whose prompts contain one of these names."""
        for name in names:
            self.held[name] = threading.Event()

    def release(self, *names: str) -> None:
        """Let these steps continue, or all without names."""
        for name in names or [*self.held]:
            self.held[name].set()

    def next_reply(self, request: Recorded) -> Reply:
        names = [tool["function"]["name"] for tool in request.body.get("tools", ())]
        if "submit_plan" in names:
            return self._plan_reply(request)
        form_input = json.loads(request.messages[1]["content"])
        prompt = form_input["request"]
        self.prompts.append(prompt)
        for name, event in self.held.items():
            if name in prompt:
                event.wait(60)
        form = names[0] if names else "ScenePatch"
        answer = self.patch(prompt) if form == "ScenePatch" else {**SCENES[0], "name": prompt[:40]}
        if isinstance(answer, Fail):
            return answer
        return Say(calls=[("call_form", form, json.dumps(answer))])

    def _plan_reply(self, request: Recorded) -> Reply:
        messages = request.messages
        if messages[-1]["role"] == "tool":
            refused = '"error"' in messages[-1]["content"]
            if not refused or not self.plans:
                return Say("Done.")
        self.outlines.append(next(one["content"] for one in reversed(messages) if one["role"] == "user"))
        plan = self.plans.pop(0) if self.plans else "There is nothing to do."
        if isinstance(plan, str):
            return Say(plan)
        self._count += 1
        return Say(calls=[(f"call_{self._count}", "submit_plan", json.dumps(plan))])


def edit(*scenes: str, prompt: str = "change it", **more: Any) -> dict[str, Any]:
    """A planned edit."""
    return {"tool": "editScene", "scenes": [*scenes], "prompt": prompt, **more}


class VideoClient:
    """A project over REST."""

    def __init__(self, http: httpx.AsyncClient, planning_model: PlanningModel, name: str = "launch") -> None:
        self.http = http
        self.model = planning_model
        self.name = name

    async def create(self, scenes: Sequence[Mapping[str, Any]] = SCENES) -> None:
        reply = await self.http.post("/api/projects", json={"id": self.name, "scenes": scenes})
        assert reply.status_code == 201, reply.text

    async def start(self, message: str, *steps: Mapping[str, Any], **more: Any) -> str:
        """Start an execution of these steps and return its id."""
        return str((await self.post_execution(message, *steps, **more))["executionId"])

    async def post_execution(self, message: str, *steps: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        if steps:
            self.model.plans.append({"steps": [*steps]})
        body = {"message": message, "provider": "openai", **more}
        reply = await self.http.post(f"/api/projects/{self.name}/executions", json=body)
        assert reply.status_code == 200, reply.text
        return dict(reply.json())

    async def call(self, method: str, path: str, status: int = 200, **options: Any) -> dict[str, Any]:
        reply = await self.http.request(method, path, **options)
        assert reply.status_code == status, reply.text
        return dict(reply.json()) if reply.content else {}

    async def execution(self, name: str) -> dict[str, Any]:
        return await self.call("GET", f"/api/executions/{name}")

    async def statuses(self, name: str) -> dict[str, str]:
        return {step["id"]: step["status"] for step in (await self.execution(name))["plan"]["steps"]}

    async def wait_until(self, name: str, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Return the execution once the condition holds."""
        newest: dict[str, Any] = {}

        async def holds() -> bool:
            newest.update(await self.execution(name))
            return bool(condition(newest))

        await eventually(holds, f"the condition of execution {name}")
        return newest

    async def wait_for_end(self, name: str) -> dict[str, Any]:
        """Return the execution once it and its run have ended."""
        done = await self.wait_until(name, lambda one: one["success"] is not None)
        await self.wait_until_idle()
        return done

    async def wait_until_idle(self) -> None:
        async def over() -> bool:
            thread = (await self.http.get(f"/threads/{self.thread}")).json()
            return bool(thread["status"] != "busy")

        await eventually(over, "the conversation is idle")

    @property
    def thread(self) -> str:
        return self.name

    async def scenes(self) -> list[dict[str, Any]]:
        return list((await self.call("GET", f"/api/projects/{self.name}/scenes"))["scenes"])

    async def contents(self) -> dict[str, Any]:
        """Return the content of every scene by id."""
        return {
            one["id"]: (await self.call("GET", f"/api/projects/{self.name}/scenes/{one['id']}"))["scene"]
            for one in await self.scenes()
        }

    async def revisions(self) -> dict[str, int]:
        return {one["id"]: one["revision"] for one in await self.scenes()}


def status_is(step: str, status: str) -> Callable[[dict[str, Any]], bool]:
    """A condition of an execution."""
    return lambda one: any(each["id"] == step and each["status"] == status for each in one["plan"]["steps"])
