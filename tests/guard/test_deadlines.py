"""The time limits of tools that ask a model."""

import asyncio
import time

import pytest

from callsheet import providers
from callsheet.state.errors import UnusableAnswer
from callsheet.state.plan import Step
from callsheet.storage import Storage
from callsheet.storage.spending import Account, VendorLimits, admit_call, release_call
from callsheet.storage.tool_admission import read_breakers
from callsheet.tools.guard import guard
from callsheet.tools.guard.attempt import resolve_tool
from callsheet.tools.guard.tool_environment import ToolEnvironment, use_tool_environment
from callsheet.tools.models.calls import call_model, charge
from callsheet.tools.policy import ToolOptions, ToolPolicy
from callsheet.tools.registry import Registry
from tests.doubles.chat_double import ChatDouble, Recorded, Reply, Say
from tests.doubles.waiting import eventually
from tests.guard.guarded import SCOPE, registry_with_tool, step

LIMIT_S = 3.0
ACCOUNT = Account("local", "t", "turn")


def asking_tool(spec: str) -> Registry:
    """A tool that asks a model, with a limit of its own."""

    # Its client is imported before the limit runs.
    model = providers.load(spec)

    async def probe(args: object, call: object) -> dict[str, str]:
        answer = await call_model(model, [], lambda: model.ainvoke("Hi"))
        return {"answer": answer.text}

    registry: Registry = registry_with_tool(probe, options=ToolOptions(tries=1, timeout_s=LIMIT_S))
    return registry


def reading_step() -> Step:
    planned: Step = step(writes=())
    return planned


async def time_is_over(seconds: float) -> None:
    """Wait until so much of the tool's limit would have time_is_over."""
    began = time.monotonic()

    async def over() -> bool:
        return time.monotonic() - began > seconds

    await eventually(over, "the time is over")


async def test_a_tools_limit_does_not_run_while_its_model_call_waits_in_the_queue(
    opened: Storage, model: ChatDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C36: three steps for one local model had been ended while they waited for each other."""
    monkeypatch.setenv("OPENAI_CONCURRENCY", "1")
    limits = VendorLimits("OpenAI", calls=1)
    await admit_call(opened, limits, "another call", 10, 60)
    model.script(Say("Hello."))
    with charge(ACCOUNT):
        call = asyncio.create_task(guard.call(asking_tool("openai"), reading_step(), SCOPE))
        await time_is_over(1.5 * LIMIT_S)
        assert not call.done()
        await release_call(opened, limits, "another call", 10, 10)
        outcome = await call
    assert (outcome.label, outcome.output) == ("ok", {"answer": "Hello."})


class SlowModel(ChatDouble):
    """An endpoint that answers once the test lets it."""

    def next_reply(self, request: Recorded) -> Reply:
        self.closing.wait(1.5 * LIMIT_S)
        return super().next_reply(request)


@pytest.mark.parametrize(("by_operator", "label"), [(False, "ok"), (True, "timeout_error")])
async def test_a_tools_own_limit_grows_with_the_time_out_of_a_slow_provider_and_the_operators_does_not(
    opened: Storage, monkeypatch: pytest.MonkeyPatch, *, by_operator: bool, label: str
) -> None:
    """C36."""
    with SlowModel() as slow:
        for name, value in slow.environ_of("COMPATIBLE", MODEL="small").items():
            monkeypatch.setenv(name, value)
        slow.script(Say("Hello."))
        options = {"probe": ToolOptions(timeout_s=LIMIT_S)} if by_operator else {}
        with use_tool_environment(ToolEnvironment(policy=ToolPolicy(options))):
            outcome = await guard.call(asking_tool("compatible"), reading_step(), SCOPE)
        assert outcome.label == label


async def test_answers_that_fit_no_form_open_no_breaker_and_are_not_tried_again(opened: Storage) -> None:
    """C46: the service works."""
    runs: list[int] = []

    async def probe(args: object, call: object) -> dict[str, str]:
        runs.append(1)
        raise UnusableAnswer("the model's answer does not fit Scene")

    tools = registry_with_tool(probe)
    for at in range(6):
        outcome = await guard.call(tools, step(writes=(), call=f"c{at}"), SCOPE)
        assert "does not fit Scene" in outcome.output["error"]
    assert len(runs) == 6
    limits = resolve_tool(tools["probe"], ToolPolicy()).limits
    assert (await read_breakers(opened, [limits], "local"))["probe"].state == "closed"
