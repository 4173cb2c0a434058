"""The endpoint that answers the product in a run: a real model behind the proxy, recordings, or offline."""

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
from callsheet.providers.settings import VendorSettings
from callsheet.state.errors import Invalid
from evals import recordings
from evals.recordings import RecordedEndpoint, Recordings
from evals.running import EvaluationPlan, environment
from evals.tasks import Task
from evals.wire import Wire

RECORDED: Final = "recorded"
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class EvaluationOptions:
    """The options of a run that decide on what answers."""

    model: str
    """`provider/model`; empty for the recordings."""
    cache: Path | None = None
    """Folder of kept answers; None keeps none."""
    record: Path | None = None
    """Folder to write the answers to; None records none."""


@contextmanager
def recorded_plan(tasks: Sequence[Task], known: Recordings, **options: Any) -> Iterator[EvaluationPlan]:
    """Yield the plan in which recordings answer; what is recorded and not asked for is a failure."""

    async def left_over(task: Task) -> Mapping[str, str]:
        left = endpoint.left_over(task.key)
        return {"left over": f"recorded and not asked for: {', '.join(left)}"} if left else {}

    with RecordedEndpoint(known) as endpoint, environment(endpoint.environ_of("COMPATIBLE")):
        yield EvaluationPlan(
            [task for task in tasks if task.key in known],
            lambda task: f"compatible/{task.key}",
            after=left_over,
            **options,
        )


@contextmanager
def model_plan(
    tasks: Sequence[Task], chosen: EvaluationOptions, **options: Any
) -> Iterator[tuple[EvaluationPlan, Wire | None]]:
    """Yield the plan in which a model answers, and the proxy before it."""
    if chosen.model == providers.OFFLINE:
        yield (
            EvaluationPlan([task for task in tasks if task.offline], lambda _: providers.OFFLINE, **options),
            None,
        )
        return
    folder = chosen.record
    # Only answers over Chat Completions are recorded.
    settings = {"OPENAI_RESPONSES": "false"} if folder else NO_SETTINGS
    with proxied(chosen.model, chosen.cache, settings) as wire:

        async def record(task: Task) -> Mapping[str, str]:
            assert folder  # noqa: S101 -- it is called only while recording
            recordings.save(folder / f"{task.workflow}.jsonl", {task.key: [*wire.recorded]})
            wire.recorded.clear()
            return {}

        # One answer can be told from another's only where one task runs at a time.
        recording = {"at_once": 1, "after": record} if folder else {}
        yield EvaluationPlan(tasks, lambda _: chosen.model, **{**options, **recording}), wire


@contextmanager
def proxied(model: str, cache: Path | None, settings: Mapping[str, str] = NO_SETTINGS) -> Iterator[Wire]:
    """Put the proxy between the product and the server of a model; raise `Invalid` for an unknown one.

    `settings` are further environment variables.
    """
    name = model.partition("/")[0]
    providers.load(model)
    prefix, upstream = address(name)
    with Wire(upstream, cache=cache) as wire:
        # Behind the proxy the product no longer sees OpenAI's own address, where reasoning models think.
        own = {"OPENAI_RESPONSES": "true"} if upstream == OpenAIModel.url else {}
        with environment({f"{prefix}_BASE_URL": wire.url, **own, **settings}):
            yield wire


def address(name: str) -> tuple[str, str]:
    """Return a provider's prefix of settings, and the base URL of its server."""
    if name not in providers.PROVIDERS or not providers.PROVIDERS[name].key:
        raise Invalid(f"provider {name!r} has no server", remedy="name another one")
    module, _, class_name = providers.PROVIDERS[name].model_class.partition(":")
    model_class = getattr(import_module(module), class_name)
    given = VendorSettings.read(model_class.prefix, os.environ)
    default = f"{ollama_url(os.environ)}/v1" if name == "ollama" else model_class.url
    return model_class.prefix, given.base_url or default


def settings_of(model: str) -> dict[str, str]:
    """Return a model's settings that decide on its answers; never its key."""
    name = model.partition("/")[0]
    if not providers.PROVIDERS[name].key:
        return {}
    given = VendorSettings.read(address(name)[0], os.environ)
    shown = given.model_dump(
        include={
            "temperature",
            "max_output_tokens",
            "context_tokens",
            "reasoning_effort",
            "thinking",
            "extra_body",
        },
        exclude_defaults=True,
    )
    return {key: str(value) for key, value in shown.items()}
