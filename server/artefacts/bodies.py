"""Request bodies that several kinds of artefacts share."""

from typing import Any, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator


class ActionDecision(BaseModel):
    """A person's decision about an action."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["approve", "reject", "edit"]
    message: str | None = Field(None, max_length=2_000, description="Reason of a rejection")
    edited_action: dict[str, Any] | None = Field(
        None,
        validation_alias=AliasChoices("edited_action", "editedAction"),
        description="{name, args} with other args; of an edit only",
    )

    @model_validator(mode="after")
    def _check_edit(self) -> Self:
        action = self.edited_action
        if self.type == "edit" and not isinstance((action or {}).get("args"), dict):
            raise ValueError("an edit needs edited_action with args, such as {name, args}")
        if self.type != "edit" and action is not None:
            raise ValueError(f"edited_action belongs to the type edit, and the type is {self.type}")
        return self
