"""Request bodies that several kinds of artefacts share."""

from typing import Any, Final, Literal, Self

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


_EDITED: Final = AliasChoices("edited_action", "editedAction")


class StepPatch(BaseModel):
    """Other parameters of a pending step."""

    model_config = ConfigDict(extra="forbid")

    params: dict[str, Any] = Field(min_length=1, description="`prompt`, `name`, `durationSeconds` …")


class StepCreate(BaseModel):
    """A step to insert."""

    model_config = ConfigDict(extra="forbid")

    step: dict[str, Any] = Field(
        min_length=1,
        description="`tool`, `params`, `after` and `id`; of a video, a step of a submitted plan",
    )


class EditedStep(BaseModel):
    """A step with other parameters."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(None, max_length=200, description="The step's tool, which cannot be changed")
    args: dict[str, Any] = Field(min_length=1, description="All parameters of the step")


class StepDecision(BaseModel):
    """A person's decision about a step."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["approve", "reject", "edit"]
    message: str | None = Field(None, max_length=2_000, description="Reason of a rejection")
    edited_action: EditedStep | None = Field(None, validation_alias=_EDITED, description="Of an edit")

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if self.type == "edit" and self.edited_action is None:
            raise ValueError("an edit needs edited_action with all args of the step")
        if self.type != "edit" and self.edited_action is not None:
            raise ValueError(f"a decision of type {self.type!r} has no edited_action; send the type 'edit'")
        if self.type != "reject" and self.message:
            raise ValueError(f"a decision of type {self.type!r} has no message; reject to give a reason")
        return self


class PlanDecision(BaseModel):
    """A person's decision about a plan that waits for approval."""

    model_config = ConfigDict(extra="forbid")

    decisions: list[StepDecision] = Field(
        min_length=1,
        max_length=100,
        description="One for each step that writes, or one for all: approve, reject with `message`, edit",
    )

    def as_answer(self) -> list[dict[str, Any]]:
        """Return the decisions as the answer to a question has them."""
        return [one.model_dump(exclude_none=True) for one in self.decisions]
