"""Options that several commands share, and commands that take their options as one dataclass."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

Options = TypeVar("Options")
DataDir = Annotated[
    Path | None, typer.Option(help="Folder of the data; beats CALLSHEET_DATA_DIR and REDIS_URL.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Model = Annotated[str | None, typer.Option(help="Model, as provider/model.")]
ReplyJson = Annotated[bool, typer.Option("--json", help="Print the reply of the REST API as JSON.")]


def model_context(provider: str | None, model: str | None) -> Any:
    """Return the run's context with the options that were given."""
    chosen = {"provider": provider, "model": model}
    return {name: value for name, value in chosen.items() if value}


def takes_options(kind: Callable[..., Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Return a decorator that turns a function of a dataclass into a command: an option per field."""

    def decorate(run: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(run)
        def command(**values: Any) -> None:
            run(kind(**values))

        # Typer reads a command's parameters from these two.
        command.__signature__ = inspect.signature(kind)  # type: ignore[attr-defined]
        command.__annotations__ = get_type_hints(kind, include_extras=True)
        return command

    return decorate
