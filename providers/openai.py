"""OpenAI, or any other server with the Chat Completions API: Ollama, vLLM, llama.cpp (A40)."""

from typing import Any, ClassVar

from callsheet.providers.chat import ChatModel

_NO_TOOLS_WHILE_REASONING = ("gpt-5.6", "gpt-6-luna", "gpt-6-sol", "gpt-6.1-terra")
"""Models that accept tools over Chat Completions only with reasoning switched off.

https://developers.openai.com/api/docs/models/gpt-6-luna
"""


class OpenAIModel(ChatModel):
    """`OPENAI_API_KEY`, `OPENAI_BASE_URL`, `OPENAI_MODEL`, `OPENAI_TIMEOUT_S`, `OPENAI_MAX_RETRIES`."""

    title: ClassVar[str] = "OpenAI"
    prefix: ClassVar[str] = "OPENAI"
    url: ClassVar[str] = "https://api.openai.com/v1"
    default_model: ClassVar[str] = "gpt-6-luna"

    @classmethod
    def quirks(cls, model: str) -> dict[str, Any]:
        """Return the arguments that switch reasoning off where it would forbid tools."""
        return {"reasoning_effort": "none"} if model.startswith(_NO_TOOLS_WHILE_REASONING) else {}
