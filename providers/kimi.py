"""Kimi's models on the Moonshot platform."""

from typing import Any, ClassVar

from callsheet.providers.chat import ChatModel
from callsheet.providers.vendor_settings import VendorSettings

_NEVER_THINKS = ("moonshot-", "kimi-k2-0", "kimi-k2-turbo", "kimi-latest")


class KimiModel(ChatModel):
    """Models from K2.5 on think unless a setting turns it off, and refuse a temperature of the caller's.

    They answer 400 to a call in the history without its `reasoning_content`, and cannot be forced to call a
    tool while they think: https://platform.kimi.ai/docs/guide/use-kimi-k2-thinking-model
    Parameters by model: https://platform.kimi.ai/docs/api/models-overview
    """

    title: ClassVar[str] = "Kimi"
    prefix: ClassVar[str] = "MOONSHOT"
    url: ClassVar[str] = "https://api.moonshot.ai/v1"
    default_model: ClassVar[str] = "moonshot-v1-32k"

    @classmethod
    def quirks(cls, model: str, settings: VendorSettings) -> dict[str, Any]:
        """Return the arguments for models that think."""
        if model.startswith(_NEVER_THINKS):
            return {}
        if settings.thinking is False:
            return {"temperature": None, "extra_body": {"thinking": {"type": "disabled"}}}
        return {"temperature": None, "thinks": True, "replays_reasoning": True}
