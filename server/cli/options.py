"""What `callsheet ad`, `lesson` and `page` may be told, as one value instead of a dozen parameters."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

Options = TypeVar("Options")
DataDir = Annotated[
    Path | None, typer.Option(help="Folder of the data; beats CALLSHEET_DATA_DIR and REDIS_URL.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]
_WORDS = "The brief; after --thread what to change; - for stdin."
_EDIT = "What should be different; - for stdin; left out with --yes or --no."
_LESSON = "The material, who it is for, or what should be different; - for stdin."
_CHOICE = 'Which facts to tell: all, 1 and 3, "all but the third" [asked here].'
_REVIEW = "Ask whether each narration is right [no]."
_IMAGES = "Look for images once the narration stands, and ask which are shown [no]."
_LEAVE = "What to answer when asked before a deletion [asked here]."
_LENGTH = "Seconds of the spot [the brief's, else 30]."
_JSON = "Print the reply as the REST API gives it."


@dataclass(frozen=True)
class AdOptions:
    """The options of `callsheet ad`; in brackets what holds where one is left out."""

    said: Annotated[str | None, typer.Argument(metavar="BRIEF", help=_WORDS)] = None
    file: Annotated[str | None, typer.Option(help="Read it from this file, text or JSON.")] = None
    thread: Annotated[str | None, typer.Option(help="Go on with this ad or conversation.")] = None
    ad_id: Annotated[str | None, typer.Option(help="Id of the new ad [made up].")] = None
    language: Annotated[str | None, typer.Option(help="Language of the ad [the brief's].")] = None
    market: Annotated[str | None, typer.Option(help="Market of the ad [the brief's, else US].")] = None
    duration: Annotated[float | None, typer.Option(help=_LENGTH)] = None
    provider: Annotated[str | None, typer.Option(help="Who writes: openai, offline … [by language].")] = None
    model: Annotated[str | None, typer.Option(help="Which model, as provider/model.")] = None
    as_json: Annotated[bool, typer.Option("--json", help=_JSON)] = False
    data_dir: DataDir = None
    debug: Debug = False


@dataclass(frozen=True)
class LessonOptions:
    """The options of `callsheet lesson`; in brackets what holds where one is left out."""

    said: Annotated[str | None, typer.Argument(metavar="WORDS", help=_LESSON)] = None
    file: Annotated[str | None, typer.Option(help="The material: a PDF or a text file.")] = None
    lesson: Annotated[str | None, typer.Option(help="Go on with this lesson [a new one].")] = None
    choose: Annotated[str | None, typer.Option(help=_CHOICE)] = None
    review: Annotated[bool | None, typer.Option("--review/--no-review", help=_REVIEW)] = None
    images: Annotated[bool | None, typer.Option("--images/--no-images", help=_IMAGES)] = None
    provider: Annotated[str | None, typer.Option(help="Who writes: openai, offline … [who has a key].")] = (
        None
    )
    model: Annotated[str | None, typer.Option(help="Which model, as provider/model.")] = None
    as_json: Annotated[bool, typer.Option("--json", help=_JSON)] = False
    data_dir: DataDir = None
    debug: Debug = False


@dataclass(frozen=True)
class PageOptions:
    """The options of `callsheet page`; in brackets what holds where one is left out."""

    said: Annotated[str | None, typer.Argument(metavar="WORDS", help=_EDIT)] = None
    page: Annotated[str | None, typer.Option(help="Go on with this page [a new one].")] = None
    select: Annotated[str | None, typer.Option(help='Id of the element that "this" means.')] = None
    yes: Annotated[bool | None, typer.Option("--yes/--no", help=_LEAVE)] = None
    provider: Annotated[str | None, typer.Option(help="Who edits: openai, offline … [who has a key].")] = None
    model: Annotated[str | None, typer.Option(help="Which model, as provider/model.")] = None
    as_json: Annotated[bool, typer.Option("--json", help=_JSON)] = False
    data_dir: DataDir = None
    debug: Debug = False


def takes_options(kind: Callable[..., Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Return a decorator that makes of a function of one `kind` a command with a parameter a field."""

    def decorated(run: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(run)
        def command(**given: Any) -> None:
            run(kind(**given))

        # Typer reads what a command takes from these two.
        command.__signature__ = inspect.signature(kind)  # type: ignore[attr-defined]
        command.__annotations__ = get_type_hints(kind, include_extras=True)
        return command

    return decorated
