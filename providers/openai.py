"""OpenAI's models, or any other server with the Chat Completions API."""

from typing import Any, ClassVar
from urllib.parse import urlsplit

from langchain_core.messages import BaseMessage, convert_to_messages

from callsheet.providers.chat import ChatModel
from callsheet.providers.vendor_settings import VendorSettings

_NO_TOOLS_WHILE_REASONING = ("gpt-5.6", "gpt-6-luna", "gpt-6-sol", "gpt-6.1-terra")
"""Models that accept tools over Chat Completions only with reasoning switched off.

https://developers.openai.com/api/docs/models/gpt-6-luna
"""
_NO_REASONING = ("gpt-3", "gpt-4", "chatgpt")
_OWN_HOST = "api.openai.com"
_ITEMS = "reasoning_items"
"""Key of a message's `additional_kwargs` for the encrypted reasoning."""
_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}
"""Reasons of the Responses API for an incomplete answer, in the words of Chat Completions."""


class OpenAIModel(ChatModel):
    """Reasoning models at OpenAI's own address use the Responses API, so that they can think between calls.

    Nothing is stored at OpenAI: the reasoning comes back encrypted and is sent again with the history.
    https://developers.openai.com/blog/responses-api
    """

    title: ClassVar[str] = "OpenAI"
    prefix: ClassVar[str] = "OPENAI"
    url: ClassVar[str] = "https://api.openai.com/v1"
    default_model: ClassVar[str] = "gpt-6-luna"
    output_limit: ClassVar[str] = "max_completion_tokens"

    @classmethod
    def quirks(cls, model: str, settings: VendorSettings) -> dict[str, Any]:
        """Return the arguments for the Responses API, or those that make tools work without it."""
        if cls.uses_responses(model, settings):
            return {
                "use_responses_api": True,
                "has_grammar": True,
                "store": False,
                "include": ["reasoning.encrypted_content"],
                # Reasoning models refuse it: https://developers.openai.com/api/docs/guides/reasoning
                "temperature": None,
            }
        refuses_tools = model.startswith(_NO_TOOLS_WHILE_REASONING) and not settings.reasoning_effort
        return {"reasoning_effort": "none"} if refuses_tools else {}

    @classmethod
    def uses_responses(cls, model: str, settings: VendorSettings) -> bool:
        """Return True for a reasoning model at OpenAI's own address, or where the setting says so."""
        own = urlsplit(settings.base_url or cls.url).hostname == _OWN_HOST
        wanted = own if settings.responses is None else settings.responses
        return wanted and not model.startswith(_NO_REASONING) and "chat" not in model

    def _get_request_payload(self, input_: Any, **kwargs: Any) -> dict[str, Any]:
        messages = convert_to_messages(input_)
        if self.use_responses_api:
            messages = [_with_reasoning(message) for message in messages]
        return super()._get_request_payload(messages, **kwargs)

    def _tidy(self, message: BaseMessage) -> None:
        """Bring an answer of the Responses API, or a part of it, to the form of Chat Completions."""
        if not isinstance(message.content, list):
            return
        blocks = [block for block in message.content if isinstance(block, dict)]
        message.content = "".join(block.get("text", "") for block in blocks if block["type"] == "text")
        message.id = None
        if items := [block for block in blocks if block["type"] == "reasoning"]:
            message.additional_kwargs[_ITEMS] = items
        for block in blocks:
            if block["type"] == "refusal":
                message.additional_kwargs["refusal"] = block["refusal"]
        if status := message.response_metadata.get("status"):
            reason = (message.response_metadata.get("incomplete_details") or {}).get("reason", status)
            message.response_metadata["finish_reason"] = _FINISH.get(reason, "stop")


def _with_reasoning(message: BaseMessage) -> BaseMessage:
    """Return a message with the reasoning items that were kept with it, before its text and calls."""
    items = message.additional_kwargs.get(_ITEMS)
    if not items:
        return message
    text = [{"type": "text", "text": message.text}] if message.text else []
    return message.model_copy(update={"content": [*items, *text]})
