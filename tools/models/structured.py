"""Structured output: a model fills in a pydantic form, any vendor's or the offline one.

A ladder of requests, each simpler than the one before: a JSON Schema mode where the server has one, a forced
tool, an offered tool, JSON in the answer. A request that the vendor rejects, and an answer without JSON, lead
to the next rung; what a server rejects or ignores is not asked of it again in this process. Almost-JSON is
repaired, and an answer that does not fit goes back with what is wrong.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel, ValidationError

from callsheet import providers
from callsheet.providers.routing import RoutingRequest, failed_requests, outages, route
from callsheet.state import pricing
from callsheet.state.errors import Invalid, RequestRejected, UnusableAnswer
from callsheet.tools.guard.arguments import read_arguments, repair_off_loop
from callsheet.tools.guard.tool_environment import current_tool_environment
from callsheet.tools.models.calls import call_model
from callsheet.tools.registry import grammar_schema, model_schema

if TYPE_CHECKING:
    from callsheet.providers.chat import ChatModel

Form = TypeVar("Form", bound=BaseModel)
Rung = Literal["json_schema", "forced_tool", "offered_tool", "prose"]
RUNGS: Final[tuple[Rung, ...]] = ("forced_tool", "offered_tool", "prose")
"""Rungs of a model that names none of its own in `structured_rungs`."""
_PROMISES: Final[frozenset[Rung]] = frozenset({"json_schema", "forced_tool"})
"""Rungs at which a server that knows them leaves the model no other answer."""
MAX_ANSWERS: Final = 3
_MAX_PROBLEMS: Final = 5
_FENCE: Final = re.compile(r"```[\w-]*\n([^`]*)```")
_CUT: Final = frozenset({"length", "max_tokens", "max_output_tokens"})


@dataclass(frozen=True)
class FilledForm(Generic[Form]):
    """A form filled in by a model, with cost and duration."""

    form: Form
    cost: float | None
    """US dollars; 0 for the offline model, None if the model's price is unknown."""
    duration: float
    """Seconds."""


async def model_for(spec: str, language: str) -> BaseChatModel:
    """Return the model that answers: `spec` (`provider/model`) if given, else by the language."""
    model = await providers.load_off_loop(model_name(spec, language))
    # Half a form is useless, and the offline model's rules would block the event loop while streaming.
    model.disable_streaming = True
    return model


def model_name(spec: str, language: str) -> str:
    """Return the name of the model that `model_for` returns."""
    request = RoutingRequest(provider=spec, language=language)
    return route(request, providers.with_key(os.environ), failed=outages().current()).spec


def is_offline(spec: str) -> bool:
    """Return True if the offline model answers."""
    return route(RoutingRequest(provider=spec), providers.with_key(os.environ)).provider == providers.OFFLINE


async def fill_in(
    model: BaseChatModel,
    form: type[Form],
    prompt: str,
    request: Mapping[str, Any],
    earlier: Sequence[tuple[BaseModel, str]] = (),
) -> FilledForm[Form]:
    """Return the form that the model fills in from the request, after at most `MAX_ANSWERS` answers.

    `earlier` continues a conversation: forms that the model filled in, each with the wish that follows it.
    Raises the provider's errors, and `UnusableAnswer` with what is wrong if no answer fits the form.
    """
    began = time.monotonic()
    # As JSON, so that no text of the request can pass for another field or for our instructions.
    messages: list[AnyMessage] = [
        SystemMessage(prompt),
        HumanMessage(json.dumps(request, ensure_ascii=False)),
    ]
    for answered, wish in earlier:
        messages += [AIMessage(answered.model_dump_json()), HumanMessage(wish)]
    ladder = _Ladder(model, form, messages, _rungs(model))
    problem = ""
    for _ in range(MAX_ANSWERS):
        answer = await ladder.ask()
        try:
            filled = await _parse(form, answer)
        except Invalid as error:
            problem = error.message
            ladder.correct(answer, error)
        else:
            return FilledForm(filled, pricing.total(ladder.costs), round(time.monotonic() - began, 3))
    raise UnusableAnswer(
        f"the model's answer does not fit {form.__name__}: {problem}",
        remedy="try again, or choose another model",
    )


def _rungs(model: BaseChatModel) -> list[Rung]:
    """Return the rungs that this model has not failed at, or its last one."""
    every: Sequence[Rung] = getattr(model, "structured_rungs", RUNGS)
    failed = failed_requests().of(model)
    return [rung for rung in every if rung not in failed] or [every[-1]]


class NoForm(Invalid):
    """The answer holds no JSON object."""


@dataclass
class _Ladder(Generic[Form]):
    """The conversation about one form."""

    model: BaseChatModel
    form: type[Form]
    messages: list[AnyMessage]
    rungs: list[Rung]
    """The rungs that are left; the first is the current one."""
    costs: list[float | None] = field(default_factory=list)

    async def ask(self) -> AIMessage:
        """Return the next answer; a rung that the vendor rejects is left."""
        rejected: list[Rung] = []
        while True:
            sent = self._messages()
            invoke = partial(self._bound().ainvoke, sent, {"tags": ["nostream"]})
            try:
                answer = await call_model(self.model, sent, invoke)
            except RequestRejected:
                if len(self.rungs) == 1:
                    raise
                rejected.append(self.rungs.pop(0))
                continue
            # Where the simplest is rejected, too, the fault lies elsewhere.
            for rung in rejected:
                failed_requests().report(self.model, rung)
            self.costs.append(_cost(self.model, answer))
            return answer

    def correct(self, answer: AIMessage, problem: Invalid) -> None:
        """Send the answer back with what is wrong; one without a form makes the next request simpler."""
        if isinstance(problem, NoForm) and len(self.rungs) > 1:
            rung = self.rungs.pop(0)
            if rung in _PROMISES and answer.text:
                failed_requests().report(self.model, rung)
        text = next(_texts(answer), "") or "(nothing)"
        wish = f"{problem.message}. Answer again with the whole {self.form.__name__}, corrected."
        self.messages += [AIMessage(text), HumanMessage(wish)]

    def _messages(self) -> Sequence[AnyMessage]:
        if self.rungs[0] not in {"prose", "json_schema"}:
            return self.messages
        # A grammar keeps to the form, but a model that does not see the form fills it in badly.
        schema = json.dumps(model_schema(self.form), ensure_ascii=False)
        rule = f"Answer with one JSON object and nothing else. It fits this JSON Schema:\n{schema}"
        return [SystemMessage(f"{self.messages[0].text}\n\n{rule}"), *self.messages[1:]]

    def _bound(self) -> Runnable[Any, AIMessage]:
        """Return the model with what the current rung sends beside the messages."""
        name, schema = self.form.__name__, model_schema(self.form)
        about = " ".join((self.form.__doc__ or name).split())
        match self.rungs[0]:
            case "json_schema":
                wanted = {"name": name, "description": about, "schema": grammar_schema(self.form)}
                return cast("ChatModel", self.model).with_schema(wanted)
            case "prose":
                return self.model
            case rung:
                tool = {"name": name, "description": about, "parameters": schema}
                choice = name if rung == "forced_tool" else "auto"
                return self.model.bind_tools(
                    [{"type": "function", "function": tool}], tool_choice=choice, parallel_tool_calls=False
                )


async def _parse(form: type[Form], answer: AIMessage) -> Form:
    """Return the form that an answer holds; raises `NoForm`, or `Invalid` with what is wrong."""
    if refusal := answer.additional_kwargs.get("refusal"):
        raise UnusableAnswer(
            f"the model refuses: {refusal}"[:300], remedy="change the material, or the model"
        )
    if answer.response_metadata.get("finish_reason") in _CUT:
        raise Invalid("The answer was cut off at its length limit; write less")
    problem: Invalid = NoForm(f"The answer holds no {form.__name__} as JSON")
    for text in _texts(answer):
        try:
            given, _ = read_arguments(form, await repair_off_loop(text))
            return form.model_validate(given)
        except ValidationError as error:
            problem = Invalid(f"The answer does not fit: {_problems(error)}")
            break
        except Invalid:
            continue
    raise problem


def _texts(answer: AIMessage) -> Iterator[str]:
    """Return what may be the form: arguments of calls, fenced text, and text between the outer braces."""
    for call in answer.tool_calls:
        yield json.dumps(call["args"], ensure_ascii=False)
    for broken in answer.invalid_tool_calls:
        yield broken["args"] or ""
    text = answer.text.rpartition("</think>")[2]
    yield from _FENCE.findall(text)
    first, last = text.find("{"), text.rfind("}")
    if 0 <= first < last:
        yield text[first : last + 1]
    elif text.strip():
        yield text


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
        for item in error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
    )


def _cost(model: BaseChatModel, raw: AIMessage) -> float | None:
    used = raw.usage_metadata
    name = str(raw.response_metadata.get("model_name") or getattr(model, "model_name", ""))
    read, written = (used["input_tokens"], used["output_tokens"]) if used else (0, 0)
    return pricing.cost(name, read, written, table=current_tool_environment().policy.prices)
