"""Tokens that a model reads at once."""

from typing import Final

from langchain_core.language_models import BaseChatModel

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
