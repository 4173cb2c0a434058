"""Which provider answers a request, and why (A47, A-R1).

An explicit provider wins; then the language; then premium or complex work; then, if the caller spoke of
budget or complexity at all, the economical one; else the default. The next that has a key stands in for one
that has none.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from callsheet.state.errors import Invalid
from callsheet.state.languages import find

OFFLINE = "offline"

TITLES: Mapping[str, str] = {"openai": "OpenAI", "qwen": "Qwen", "kimi": "Kimi"}
"""The vendors routing chooses from, in the order in which one stands in for another."""

KEYS: Mapping[str, str] = {
    "openai": "OPENAI_API_KEY",
    "qwen": "DASHSCOPE_API_KEY",
    "kimi": "MOONSHOT_API_KEY",
}

BY_LANGUAGE: Mapping[str, str] = {
    "thai": "qwen",
    "indonesian": "qwen",
    "vietnamese": "qwen",
    "spanish": "qwen",
    "portuguese": "qwen",
    "polish": "qwen",
    "czech": "qwen",
    "romanian": "qwen",
    "chinese": "kimi",
    "cantonese": "kimi",
}


@dataclass(frozen=True)
class Request:
    """What is known of a request when its provider is chosen. Case does not matter; "" is not said."""

    language: str = ""
    """Name, code, tag or native name."""
    provider: str = ""
    """What the caller asked for: `qwen`, or with a model `openai/gpt-6-luna`, or `offline`."""
    budget: str = ""
    """`premium` is the one that matters."""
    complexity: str = ""
    """`complex` is the one that matters."""


@dataclass(frozen=True)
class Route:
    """Who answers, and a sentence that says why."""

    provider: str
    """Key of `providers.PROVIDERS`."""
    reason: str
    """For a person to read."""
    model: str = ""
    """The model the caller asked for; empty for the provider's default, and whenever another stands in."""

    @property
    def spec(self) -> str:
        """What `providers.load` takes."""
        return f"{self.provider}/{self.model}" if self.model else self.provider


def route(request: Request, available: Collection[str]) -> Route:
    """Return who answers `request`, given the providers that have a key (`providers.available`).

    Raises Invalid when the caller asks for a provider that does not exist.
    """
    name, _, model = request.provider.strip().partition("/")
    wanted, why = _wanted(request, name.casefold())
    if wanted == OFFLINE or wanted in available:
        return Route(wanted, why, model)
    lacking = f"{why}, but {TITLES[wanted]} is not available (it needs {KEYS[wanted]})"
    stand_in = next((one for one in TITLES if one in available), None)
    if stand_in:
        return Route(stand_in, f"{lacking}, so {TITLES[stand_in]} answers")
    return Route(OFFLINE, f"{_NO_KEY}, so the offline model answers")


def _wanted(request: Request, explicit: str) -> tuple[str, str]:
    """Who should answer if everybody had a key, and why."""
    if explicit:
        if explicit != OFFLINE and explicit not in TITLES:
            known = ", ".join((*TITLES, OFFLINE))
            raise Invalid(f"no provider {explicit!r}", remedy=f"use one of {known}, or leave it out")
        return explicit, f"the caller asked for {TITLES.get(explicit, 'the offline model')}"
    language = find(request.language)
    if language and language.name in BY_LANGUAGE:
        vendor = BY_LANGUAGE[language.name]
        return vendor, f"{language.name} is written by {TITLES[vendor]}"
    return _by_cost(request.budget.strip().casefold(), request.complexity.strip().casefold())


def _by_cost(budget: str, complexity: str) -> tuple[str, str]:
    if budget == "premium":
        return "openai", "a premium budget is for OpenAI"
    if complexity == "complex":
        return "openai", "complex work is for OpenAI"
    if budget or complexity:
        return "qwen", "work that is neither premium nor complex is for Qwen, which costs less"
    return "openai", "OpenAI is the default"


_NO_KEY = (
    f"no key for {', '.join(list(TITLES.values())[:-1])} or {list(TITLES.values())[-1]} is set "
    f"({', '.join(KEYS.values())})"
)
