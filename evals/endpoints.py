"""The endpoint that answers the product in a run: a model behind the proxy, recordings, or offline."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from callsheet import providers
from callsheet.providers.local import ollama_url
from callsheet.providers.openai import OpenAIModel
from callsheet.providers.vendor_settings import VendorSettings
from callsheet.state.errors import Invalid
from evals import recordings
from evals.recordings import RecordedEndpoint, Recordings
from evals.running import EvalPlan, environment
from evals.tasks import Task
from evals.wire import EvalProxy

RECORDED: Final = "recorded answers (they test schema and flow, no model)"
_HISTORY: Final = {"qwen": "DASHSCOPE", "kimi": "MOONSHOT"}
"""Providers whose place the endpoint of given answers may take, with the prefix of their settings."""
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class EvalModel:
    """The model that answers in a run, and where its answers are stored."""

    model: str
    """`provider/model`; empty for the recordings."""
    cache: Path | None = None
    """Folder of cached answers; None for no cache."""
    record: Path | None = None
    profile: str = ""
    """The product's profile of tools for it: full or lean; empty for the model's own."""
    """Folder of recordings to write; None for none."""


@contextmanager
def history(tasks: Sequence[Task], provider: str) -> Iterator[Mapping[str, Any]]:
    """Serve the given answers of the tasks' earlier turns; yield the options of a plan that needs them.

    They go through the product like a model's, so the history has real calls and results. The endpoint takes
    the place of a provider that is not the evaluated one.
    """
    name, prefix = next((one, prefix) for one, prefix in _HISTORY.items() if one != provider)
    given = {f"history.{task.key}": task.history for task in tasks if task.history}
    if not given:
        yield {}
        return
    full = {f"{prefix}_PROFILE": "full"}
    with RecordedEndpoint(given, name) as endpoint, environment({**endpoint.environ_of(prefix), **full}):
        yield {"history_of": lambda task: f"{name}/history.{task.key}"}


@contextmanager
def recorded_plan(tasks: Sequence[Task], recorded: Recordings, **options: Any) -> Iterator[EvalPlan]:
    """Yield the plan in which recordings answer; a recorded answer that was not requested is a failure."""

    async def left_over(task: Task) -> Mapping[str, str]:
        left = endpoint.left_over(task.key)
        return {"left over": f"recorded and not asked for: {', '.join(left)}"} if left else {}

    chosen = [task for task in tasks if task.key in recorded]
    with (
        RecordedEndpoint(recorded) as endpoint,
        environment({**endpoint.environ_of("COMPATIBLE"), "COMPATIBLE_PROFILE": "full"}),
        history(chosen, "compatible") as given,
    ):
        yield EvalPlan(chosen, lambda task: f"compatible/{task.key}", after=left_over, **{**given, **options})


@contextmanager
def model_plan(
    tasks: Sequence[Task], model: EvalModel, **options: Any
) -> Iterator[tuple[EvalPlan, EvalProxy | None]]:
    """Yield the plan in which a model answers, and the proxy before it."""
    if model.model == providers.OFFLINE:
        yield EvalPlan([task for task in tasks if task.offline], lambda _: providers.OFFLINE, **options), None
        return
    folder = model.record
    # Only answers over Chat Completions are recorded.
    settings = {"OPENAI_RESPONSES": "false"} if folder else {}
    provider = model.model.partition("/")[0]
    if model.profile:
        settings |= {f"{address(provider)[0]}_PROFILE": model.profile}
    with proxy_for(model.model, model.cache, settings) as proxy, history(tasks, provider) as given:

        async def record(task: Task) -> Mapping[str, str]:
            assert folder  # noqa: S101 -- it is called only while recording
            recordings.save(folder / f"{task.workflow}.jsonl", {task.key: [*proxy.recorded]})
            proxy.recorded.clear()
            return {}

        # Answers can be assigned to a task only if one task runs at a time.
        recording = {"at_once": 1, "after": record} if folder else {}
        yield EvalPlan(tasks, lambda _: model.model, **{**given, **options, **recording}), proxy


@contextmanager
def proxy_for(
    model: str, cache: Path | None, settings: Mapping[str, str] = NO_SETTINGS
) -> Iterator[EvalProxy]:
    """Put the proxy between the product and the server of a model; raise `Invalid` for an unknown one.

    `settings` are further environment variables.
    """
    name = model.partition("/")[0]
    providers.load(model)
    prefix, upstream = address(name)
    with EvalProxy(upstream, cache=cache) as proxy:
        # Behind the proxy the product no longer sees OpenAI's own address, where reasoning models think.
        own = {"OPENAI_RESPONSES": "true"} if upstream == OpenAIModel.url else {}
        with environment({f"{prefix}_BASE_URL": proxy.url, **own, **settings}):
            yield proxy


def address(name: str) -> tuple[str, str]:
    """Return a provider's prefix of settings, and the base URL of its server."""
    if name not in providers.PROVIDERS or not providers.PROVIDERS[name].key:
        raise Invalid(f"provider {name!r} has no server", remedy="name another one")
    module, _, class_name = providers.PROVIDERS[name].model_class.partition(":")
    model_class = getattr(import_module(module), class_name)
    settings = VendorSettings.read(model_class.prefix, os.environ)
    default = f"{ollama_url(os.environ)}/v1" if name == "ollama" else model_class.url
    return model_class.prefix, settings.base_url or default


def settings_of(model: str) -> dict[str, str]:
    """Return a model's settings that decide on its answers; never its key."""
    name = model.partition("/")[0]
    if not providers.PROVIDERS[name].key:
        return {}
    settings = VendorSettings.read(address(name)[0], os.environ)
    values = settings.model_dump(
        include={
            "temperature",
            "max_output_tokens",
            "context_tokens",
            "reasoning_effort",
            "thinking",
            "extra_body",
            "profile",
        },
        exclude_defaults=True,
    )
    return {key: str(value) for key, value in values.items()}
