"""Local models on Ollama, over its Chat Completions endpoint."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from callsheet.providers.chat import ChatModel
from callsheet.providers.local import ollama_url
from callsheet.providers.vendor_settings import VendorSettings


class OllamaModel(ChatModel):
    """`OLLAMA_MODEL` names the model, `OLLAMA_HOST` the server; no key is needed.

    This endpoint cannot set the context, and Ollama cuts a longer request silently. The server's own
    `OLLAMA_CONTEXT_LENGTH`, or `num_ctx` in the model's file, sets it; where the variable is known here, or
    `OLLAMA_CONTEXT_TOKENS` is set, a conversation is shortened by us before it is sent.
    https://docs.ollama.com/context-length
    """

    title: ClassVar[str] = "Ollama"
    prefix: ClassVar[str] = "OLLAMA"
    url: ClassVar[str] = "http://127.0.0.1:11434/v1"
    default_model: ClassVar[str] = ""
    needs_key: ClassVar[bool] = False
    timeout_s: ClassVar[float] = 600.0
    """A model without a graphics card may read for minutes before its first word."""
    usual_patience_s: ClassVar[float] = timeout_s
    """A call may wait for such an answer to another one."""

    @classmethod
    def from_environ(cls, model: str, environ: Mapping[str, str]) -> Self:
        """Return the configured model."""
        known = {
            "OLLAMA_BASE_URL": f"{ollama_url(environ)}/v1",
            "OLLAMA_CONTEXT_TOKENS": environ.get("OLLAMA_CONTEXT_LENGTH", ""),
        }
        return super().from_environ(
            model, {**known, **{name: text for name, text in environ.items() if text}}
        )

    @classmethod
    def quirks(cls, model: str, settings: VendorSettings) -> dict[str, Any]:
        """Return the argument that turns thinking off: https://docs.ollama.com/capabilities/thinking."""
        del model
        quiet = {"reasoning_effort": "none"} if settings.thinking is False else {}
        return {"has_grammar": True, **quiet}
