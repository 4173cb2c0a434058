"""Ask a model to fill in a form: any vendor's, or the offline one, through the same port (B7)."""

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
from callsheet.providers.routing import Request, route
from callsheet.state import pricing
from callsheet.state.errors import Unavailable
from callsheet.tools.guard import guard

Form = TypeVar("Form", bound=BaseModel)
MAX_TRIES: Final = 2


@dataclass(frozen=True)
class FilledForm(Generic[Form]):
    """A form as a model filled it in, and what that took."""

    form: Form
    cost: float
    """US dollars (B58); 0 for the offline model."""
    duration: float
    """Seconds."""


def model_for(spec: str, language: str) -> BaseChatModel:
    """Return the model that answers: `spec` (`provider/model`) if given, else by the language (A-R1)."""
    model = providers.load(model_name(spec, language))
    # A half-filled form is no use to anybody, and rules that take a second would hold up the event loop.
    model.disable_streaming = True
    return model


def model_name(spec: str, language: str) -> str:
    """Return the name of the model that `model_for` returns."""
    return route(Request(provider=spec, language=language), providers.available(os.environ)).spec


def is_offline(spec: str) -> bool:
    """Return whether it is the offline model that answers."""
    return route(Request(provider=spec), providers.available(os.environ)).provider == providers.OFFLINE


async def fill_in(
    model: BaseChatModel, form: type[Form], prompt: str, request: Mapping[str, Any]
) -> FilledForm[Form]:
    """Return the form as the model fills it in from the request; it is asked twice where it fails to.

    Raises what the provider raises, and `Unavailable` where the second answer is no such form either.
    """
    began = time.monotonic()
    asked = model.with_structured_output(form, method="function_calling", include_raw=True)
    # As JSON no text of the request can pass for a part of it, or for words of ours.
    messages = [SystemMessage(prompt), HumanMessage(json.dumps(request, ensure_ascii=False))]
    cost = 0.0
    for _ in range(MAX_TRIES):
        answer: Any = await asked.ainvoke(messages, {"tags": ["nostream"]})
        cost += _cost(model, answer["raw"])
        if isinstance(answer["parsed"], form):
            return FilledForm(answer["parsed"], round(cost, 8), round(time.monotonic() - began, 3))
    said = str(answer["parsing_error"] or "it called no tool")[:200]
    raise Unavailable(
        f"the model's answer is no {form.__name__}: {said}",
        remedy="try again, or choose another model",
    )


def _cost(model: BaseChatModel, raw: AIMessage) -> float:
    used = raw.usage_metadata
    if used is None:
        return 0.0
    name = raw.response_metadata.get("model_name") or getattr(model, "model_name", "")
    return pricing.cost(str(name), used["input_tokens"], used["output_tokens"], guard.house.prices)
