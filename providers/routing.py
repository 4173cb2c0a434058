"""Choice of the provider that answers a request, with the reason; outages; and how much a model reads.

The first rule that applies wins: the caller's provider; the language; premium or complex work; the economical
provider, if the caller gave a budget or complexity at all; the default. A provider without a key is replaced
by the next in `PROVIDERS` that can answer, also one that the caller named: then the reason names the variable
to set. So is one that failed a moment ago in this process, unless the caller named it.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final, Literal

from langchain_core.language_models import BaseChatModel

from callsheet.providers import OFFLINE, PROVIDERS, Provider
from callsheet.providers.local import SMALL, size_in
from callsheet.state.errors import Invalid, Unavailable
from callsheet.state.languages import find

BY_LANGUAGE: Mapping[str, str] = {
    **dict.fromkeys(("thai", "indonesian", "vietnamese", "spanish", "portuguese"), "qwen"),
    **dict.fromkeys(("polish", "czech", "romanian"), "qwen"),
    **dict.fromkeys(("chinese", "cantonese"), "kimi"),
}
"""Preferred provider by language; every other language has none."""


@dataclass(frozen=True)
class RoutingRequest:
    """Routing criteria of one request. Case does not matter; an empty text means not given."""

    language: str = ""
    """Name, code, tag or native name."""
    provider: str = ""
    """The caller's choice: `qwen`, `offline`, or with a model `openai/gpt-6-luna`."""
    budget: str = ""
    """Only `premium` has a rule of its own."""
    complexity: str = ""
    """Only `complex` has a rule of its own."""


@dataclass(frozen=True)
class Route:
    """Chosen provider and the reason."""

    provider: str
    """Key of `providers.PROVIDERS`."""
    reason: str
    """Sentence for people."""
    model: str = ""
    """The caller's model; empty for the provider's default, and whenever another provider answers."""
    input_budget: int = 0
    """Most tokens of a request to the model, once it is loaded."""

    @property
    def spec(self) -> str:
        """Argument for `providers.load`."""
        return f"{self.provider}/{self.model}" if self.model else self.provider


def route(
    request: RoutingRequest,
    available: Collection[str],
    providers: Mapping[str, Provider] = PROVIDERS,
    failed: Mapping[str, str] = MappingProxyType({}),
) -> Route:
    """Return the provider that answers `request`.

    `available` names the providers whose key is set (`providers.with_key`); `failed` has those that failed a
    moment ago, each with its error. The offline model never stands in for a vendor whose key is set. Raises
    `Invalid` for a provider that is not in `providers`.
    """
    name, _, model = request.provider.strip().partition("/")
    preferred, reason = _preferred_provider(request, name.casefold(), providers)
    vendors = [name for name in providers if name in available and name != OFFLINE]
    if preferred == OFFLINE or (preferred in vendors and (name or preferred not in failed)):
        return Route(preferred, reason, model)
    substitute = next((name for name in vendors if name not in failed), None)
    if substitute is None and preferred in vendors:
        return Route(preferred, reason)
    substitute = substitute or next(iter(vendors), None)
    if substitute is None and not name:
        return Route(OFFLINE, "no key is set (such as OPENAI_API_KEY), so the offline model answers")
    substitute = substitute or OFFLINE
    provider = providers[preferred]
    problem = failed.get(preferred) or f"{provider.title} is not available (it needs {provider.key})"
    return Route(substitute, f"{reason}, but {problem}, so {providers[substitute].title} answers")


def require_provider(spec: str, providers: Mapping[str, Provider] = PROVIDERS) -> None:
    """Raise `Invalid` unless the provider of `spec` exists, such as `qwen` or `openai/gpt-6-luna`."""
    name = spec.strip().partition("/")[0].casefold()
    if name and name not in providers:
        known = ", ".join(providers)
        raise Invalid(f"no provider {name!r}", remedy=f"use one of {known}, or leave it out")


def _preferred_provider(
    request: RoutingRequest, explicit: str, providers: Mapping[str, Provider]
) -> tuple[str, str]:
    """Return the provider the rules prefer, whether or not it can answer, and the rule in words."""
    if explicit:
        require_provider(explicit, providers)
        return explicit, f"the caller asked for {providers[explicit].title}"
    language = find(request.language)
    if language and language.name in BY_LANGUAGE:
        name = BY_LANGUAGE[language.name]
        return name, f"{language.name} is written by {providers[name].title}"
    return _by_cost(request.budget.strip().casefold(), request.complexity.strip().casefold())


def _by_cost(budget: str, complexity: str) -> tuple[str, str]:
    if budget == "premium":
        return "openai", "a premium budget is for OpenAI"
    if complexity == "complex":
        return "openai", "complex work is for OpenAI"
    if budget or complexity:
        return "qwen", "work that is neither premium nor complex is for Qwen, which costs less"
    return "openai", "OpenAI is the default"


MIN_REST_S: Final = 30.0
"""Shortest time for which a provider that failed is passed over, where another one can answer."""
MAX_REST_S: Final = 300.0


class Outages:
    """A circuit breaker per provider: it opens with a failure and closes by itself."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[float, str]] = {}

    def report(self, provider: str, error: Unavailable) -> None:
        """Pass the provider over for as long as its error asks for, within the limits."""
        rest_s = min(max(error.retry_after_s, MIN_REST_S), MAX_REST_S)
        self._failures[provider] = (self._clock() + rest_s, error.message)

    def current(self) -> dict[str, str]:
        """Return the providers to pass over now, each with its error."""
        now = self._clock()
        self._failures = {name: failure for name, failure in self._failures.items() if failure[0] > now}
        return {name: message for name, (_, message) in self._failures.items()}


@cache
def outages() -> Outages:
    """Return the process's own."""
    return Outages()


ToolProfile = Literal["full", "lean", "adaptive"]
"""Tools that a model is offered; `adaptive` begins with all, and changes to few for a model that fails."""
_LOCAL: Final = frozenset({"compatible", "ollama"})


def tool_profile(spec: str, environ: Mapping[str, str]) -> ToolProfile:
    """Return the profile of a model by its setting, else by the size in its name for local servers."""
    name, _, model = spec.partition("/")
    prefix = PROVIDERS[name].key.partition("_")[0]
    match environ.get(f"{prefix}_PROFILE", "").strip().casefold():
        case "full":
            return "full"
        case "lean":
            return "lean"
    if name not in _LOCAL:
        return "full"
    size = size_in(model or environ.get(f"{prefix}_MODEL", ""))
    if size is None:
        return "adaptive"
    return "lean" if size <= SMALL else "full"


class FailedRequests:
    """Kinds of request for a form that a model's server has rejected or ignored, since the process began."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, ...], set[str]] = {}

    def report(self, model: BaseChatModel, kind: str) -> None:
        """Remember that this kind of request is of no use."""
        self._kinds.setdefault(_identity(model), set()).add(kind)

    def of(self, model: BaseChatModel) -> frozenset[str]:
        """Return the kinds that are of no use with this model at this address."""
        return frozenset(self._kinds.get(_identity(model), ()))


def _identity(model: BaseChatModel) -> tuple[str, ...]:
    names = ("prefix", "openai_api_base", "model_name")
    return tuple(str(getattr(model, name, "")) for name in names)


@cache
def failed_requests() -> FailedRequests:
    """Return the process's own."""
    return FailedRequests()


DEFAULT_WINDOW: Final = 32_000
"""Context window of a model that neither its setting nor LangChain's model profiles know."""
_ANSWER: Final = 4_096
"""Tokens kept free for the answer where no limit of output is set."""


def input_budget(model: BaseChatModel) -> int:
    """Return the most tokens of a request: the context window less room for the answer.

    The window is the setting `<PREFIX>_CONTEXT_TOKENS`, else that of the model's profile.
    https://docs.langchain.com/oss/python/langchain/models#model-profiles
    """
    profile = getattr(model, "profile", None) or {}
    window = int(getattr(model, "context_tokens", None) or profile.get("max_input_tokens") or DEFAULT_WINDOW)
    return window - min(getattr(model, "max_tokens", None) or _ANSWER, window // 4)
