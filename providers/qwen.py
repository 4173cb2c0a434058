"""Qwen's models on Alibaba Cloud's Model Studio."""

from typing import Any, ClassVar

from callsheet.providers.chat import ChatModel
from callsheet.providers.vendor_settings import VendorSettings

_NO_STREAMED_TOOLS = ("qwen-max", "qwen-turbo", "qwen1", "qwen2")
"""Older models, which do not stream while tools are bound."""
_ALWAYS_THINKS = ("qwq", "qvq")


class QwenModel(ChatModel):
    """`DASHSCOPE_BASE_URL` is the international address; a key of the mainland needs its own.

    A model that thinks answers only as a stream ("parameter.enable_thinking only support stream call"):
    https://www.alibabacloud.com/help/model-studio/error-code
    While it thinks, it refuses to be forced to call a tool:
    https://www.alibabacloud.com/help/en/model-studio/deep-thinking
    """

    title: ClassVar[str] = "Qwen"
    prefix: ClassVar[str] = "DASHSCOPE"
    url: ClassVar[str] = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"
    default_model: ClassVar[str] = "qwen-max"

    @classmethod
    def quirks(cls, model: str, settings: VendorSettings) -> dict[str, Any]:
        """Return the arguments for thinking and streaming; thinking is off unless a setting turns it on."""
        if model.startswith(_ALWAYS_THINKS) or "thinking" in model:
            return {"thinks": True, "streams_only": True}
        arguments: dict[str, Any] = {"extra_body": {"enable_thinking": bool(settings.thinking)}}
        if settings.thinking:
            return arguments | {"thinks": True, "streams_only": True}
        no_stream = model.startswith(_NO_STREAMED_TOOLS)
        return arguments | ({"disable_streaming": "tool_calling"} if no_stream else {})
