"""Any other server with the Chat Completions API: vLLM, llama.cpp, LM Studio, a gateway."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from callsheet.providers.chat import ChatModel
from callsheet.providers.vendor_settings import VendorSettings
from callsheet.state.errors import Invalid


class CompatibleModel(ChatModel):
    """`COMPATIBLE_BASE_URL` and a model are needed, a key is not; `COMPATIBLE_NAME` is shown in messages."""

    title: ClassVar[str] = "the compatible server"
    prefix: ClassVar[str] = "COMPATIBLE"
    url: ClassVar[str] = ""
    default_model: ClassVar[str] = ""
    needs_key: ClassVar[bool] = False
    timeout_s: ClassVar[float] = 600.0
    """A model without a graphics card may read for minutes before its first word."""
    usual_patience_s: ClassVar[float] = timeout_s
    """A call may wait for such an answer to another one."""

    @classmethod
    def from_environ(cls, model: str, environ: Mapping[str, str]) -> Self:
        """Return the configured model; raises `Invalid` without an address or a model."""
        settings = VendorSettings.read(cls.prefix, environ)
        needed = {"COMPATIBLE_BASE_URL": settings.base_url, "COMPATIBLE_MODEL": model or settings.model}
        for name, value in needed.items():
            if not value:
                raise Invalid(f"{cls.title} needs {name}, which is not set", remedy=f"set {name}")
        return super().from_environ(model, environ)

    @classmethod
    def quirks(cls, model: str, settings: VendorSettings) -> dict[str, Any]:
        """Return the arguments that turn thinking on or off in the model's template.

        https://docs.vllm.ai/en/latest/features/reasoning_outputs/ ; llama.cpp's server takes the same field.
        """
        del model
        if settings.thinking is None:
            return {"has_grammar": True}
        template = {"chat_template_kwargs": {"enable_thinking": settings.thinking}}
        return {"has_grammar": True, "extra_body": template}
