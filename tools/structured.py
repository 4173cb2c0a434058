"""Structured output: a model fills in a pydantic form, any vendor's or the offline one (B7)."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from pydantic import BaseModel

from callsheet import providers
from callsheet.providers.outages import outages
from callsheet.providers.routing import Request, route
from callsheet.state import pricing
from callsheet.state.errors import Unavailable
from callsheet.tools.guard import guard
from callsheet.tools.model_calls import call_model

Form = TypeVar("Form", bound=BaseModel)
MAX_TRIES: Final = 2


@dataclass(frozen=True)
class FilledForm(Generic[Form]):
    """A form filled in by a model, with cost and duration."""

    form: Form
    cost: float | None
    """US dollars (B58); 0 for the offline model, None if the model's price is unknown."""
    duration: float
    """Seconds."""


def model_for(spec: str, language: str) -> BaseChatModel:
    """Return the model that answers: `spec` (`provider/model`) if given, else by the language (A-R1)."""
    model = providers.load(model_name(spec, language))
    # Half a form is useless, and the offline model's rules would block the event loop while streaming.
    model.disable_streaming = True
    return model


def model_name(spec: str, language: str) -> str:
    """Return the name of the model that `model_for` returns."""
    request = Request(provider=spec, language=language)
    return route(request, providers.with_key(os.environ), failed=outages().current()).spec


def is_offline(spec: str) -> bool:
    """Return True if the offline model answers."""
    return route(Request(provider=spec), providers.with_key(os.environ)).provider == providers.OFFLINE


async def fill_in(
    model: BaseChatModel, form: type[Form], prompt: str, request: Mapping[str, Any]
) -> FilledForm[Form]:
    """Return the form that the model fills in from the request; a failed answer is retried once.

    Raises the provider's errors, and `Unavailable` if the second answer does not fit the form either.
    """
    began = time.monotonic()
    structured = model.with_structured_output(form, method="function_calling", include_raw=True)
    # As JSON, so that no text of the request can pass for another field or for our instructions.
    messages = [SystemMessage(prompt), HumanMessage(json.dumps(request, ensure_ascii=False))]
    cost: list[float | None] = []
    for _ in range(MAX_TRIES):
        answer: Any = None

        async def invoke() -> AIMessage:
            nonlocal answer
            answer = await structured.ainvoke(messages, {"tags": ["nostream"]})
            raw: AIMessage = answer["raw"]
            return raw

        await call_model(model, messages, invoke)
        cost.append(_cost(model, answer["raw"]))
        if isinstance(answer["parsed"], form):
            return FilledForm(answer["parsed"], pricing.total(cost), round(time.monotonic() - began, 3))
    reason = str(answer["parsing_error"] or "it called no tool")[:200]
    raise Unavailable(
        f"the model's answer does not fit {form.__name__}: {reason}",
        remedy="try again, or choose another model",
    )


def _cost(model: BaseChatModel, raw: AIMessage) -> float | None:
    used = raw.usage_metadata
    name = str(raw.response_metadata.get("model_name") or getattr(model, "model_name", ""))
    read, written = (used["input_tokens"], used["output_tokens"]) if used else (0, 0)
    return pricing.cost(name, read, written, table=guard.policy.prices)
