"""Parsers of the command line: shared options, errors with a remedy, and words that come close."""

import argparse
import difflib
import os
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from callsheet.server.cli.client import API_KEY, URL
from callsheet.state.errors import Invalid

Args = argparse.Namespace
_CHOICE: Final = re.compile(
    r"\Aargument (?P<name>[^:]+): invalid choice: '(?P<word>[^']*)' \(choose from (?P<all>.*)\)"
)


_USUAL_WORDS: Final[Mapping[str, Sequence[str]]] = {
    "find": ("search", "list"),
    "query": ("search",),
    "grep": ("search",),
    "ls": ("list",),
    "view": ("show",),
    "open": ("show",),
    "get": ("show",),
    "create": ("new",),
    "make": ("new",),
    "add": ("new",),
    "rm": ("delete",),
    "remove": ("delete",),
    "edit": ("chat",),
    "refine": ("chat",),
    "download": ("export",),
    "save": ("export",),
    "upload": ("import",),
    "play": ("listen",),
    "history": ("versions",),
    "revert": ("restore",),
    "settings": ("config",),
    "start": ("serve",),
    "server": ("serve",),
}
"""Commands that other words usually mean, which are not spelled like them."""


class UsageError(Exception):
    """Arguments that do not go together; `command` is the one whose help explains them."""

    def __init__(self, message: str, command: str) -> None:
        super().__init__(message)
        self.message = message
        self.command = command


class MissingArguments(UsageError):
    """Arguments that a command needs are left out."""


JSON_LINES: Final = {".jsonl": "jsonl"}
"""Ending and format of a file with one JSON value a line."""


def format_by_ending(file: str, formats: Mapping[str, str], elsewhere: str = "") -> str:
    """Return the format of a file by its ending, the first one for none; raises `Invalid` for another."""
    ending = Path(file).suffix.casefold()
    if not ending:
        return next(iter(formats.values()))
    if ending not in formats:
        rule = f"file {file!r} has an ending that is not written here"
        raise Invalid(rule, remedy=f"use {' or '.join(formats)}{'; ' * bool(elsewhere)}{elsewhere}")
    return formats[ending]


class Parser(argparse.ArgumentParser):
    """A parser whose errors are raised as `UsageError`, and whose help fits the terminal."""

    def __init__(self, **options: Any) -> None:
        self.arguments: list[argparse.Action] = []
        """Its arguments, those of its groups included."""
        self.commands: dict[str, tuple[str, Parser]] = {}
        """Summary and parser of each command below it."""
        super().__init__(allow_abbrev=False, add_help=False, formatter_class=_help_format, **options)
        self.add_argument("-h", "--help", action="help", help="Show this help and exit.")

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an argument, and remember it."""
        return self.remember(super().add_argument(*names, **options))

    def remember(self, action: argparse.Action) -> argparse.Action:
        """Remember an argument that was added to a group."""
        self.arguments.append(action)
        return action

    def parse(self, words: Sequence[str]) -> Args:
        """Return the arguments; raises `UsageError`."""
        args, rest = self.parse_known_args(words)
        for word in rest:
            _fill(args, word)
        return args

    def format_help(self) -> str:
        """Return the help, with a usage in one line."""
        places = [one for one in self.arguments if not one.option_strings]
        names = [f"[{one.metavar or one.dest}]" if one.nargs == "?" else str(one.metavar) for one in places]
        self.usage = " ".join([self.prog, "[OPTION]…", *names, *(["COMMAND"] if self.commands else [])])
        width = shutil.get_terminal_size().columns - 2
        self.description = textwrap.fill(" ".join((self.description or "").split()), width)
        # The row that only names the place of a command says nothing.
        return super().format_help().replace("\n  COMMAND\n", "\n")

    def print_help(self, file: Any = None) -> None:
        """Print the help; unlike argparse's, it raises if nobody reads it any more."""
        print(self.format_help(), end="", file=file)

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`."""
        if unknown := _CHOICE.match(message):
            known = [word.strip(" '") for word in unknown["all"].split(",")]
            usual = [word for word in _USUAL_WORDS.get(unknown["word"], ()) if word in known][:1]
            near = f"; did you mean {usual[0]!r}?" if usual else did_you_mean(unknown["word"], known)
            message = f"there is no {unknown['word']!r}{near}"
        kind = MissingArguments if "arguments are required" in message else UsageError
        raise kind(message, self.prog)


def _help_format(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question about the nearest known word; empty if none is near."""
    near = difflib.get_close_matches(word, [*known], 1, 0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def _fill(args: Args, word: str) -> None:
    """Give a word that stands after an option to the first optional argument without a value.

    argparse gives such arguments their defaults at the first argument that it meets (until Python 3.13).
    """
    for action in args.leaf.arguments:
        is_free = action.nargs == "?" and getattr(args, action.dest) == action.default
        if is_free and not action.option_strings and (word == "-" or not word.startswith("-")):
            setattr(args, action.dest, word)
            return
    raise UsageError(f"unknown argument {word!r}", args.leaf.prog)


class CommandGroup:
    """A group of commands."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._commands = parser.add_subparsers(metavar="COMMAND", title="commands", parser_class=Parser)
        parser.set_defaults(help_of=parser)

    @property
    def parsers(self) -> list[Parser]:
        """Parsers of its commands."""
        return [parser for _, parser in self._parser.commands.values()]

    def command(
        self, name: str, run: Callable[..., int | None], summary: str, *examples: str, local: bool = False
    ) -> Parser:
        """Add a command and return its parser; a `local` one needs no client."""
        lines = "\n".join(f"  callsheet {example}" for example in examples)
        parser = self._add(name, summary, f"examples:\n{lines}" if examples else None)
        parser.set_defaults(run=run, local=local, help_of=None, leaf=parser, for_owner=False)
        if not local:
            _add_connection(parser)
        return parser

    def group(self, name: str, summary: str) -> "CommandGroup":
        """Add a group of commands inside this one."""
        return CommandGroup(self._add(name, summary))

    def _add(self, name: str, summary: str, epilog: str | None = None) -> Parser:
        parser: Parser = self._commands.add_parser(name, help=summary, description=summary, epilog=epilog)
        self._parser.commands[name] = (summary, parser)
        return parser


def _add_connection(parser: Parser) -> None:
    url = os.environ.get(URL) or ""
    parser.add_argument("--url", default=url, help=f"Address of a server [{URL}, else this machine's].")
    parser.add_argument("--owner", default="", help="Owner whose things are meant, on this machine [local].")
    add_data_dir(parser)
    parser.add_argument("--json", action="store_true", help="Print JSON.")


def add_data_dir(parser: Parser) -> None:
    """Add the options that every command has."""
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="Folder of the data [CALLSHEET_DATA_DIR]."
    )
    parser.add_argument("--debug", action="store_true", help="Show the traceback of an error.")


def api_key() -> str:
    """Return the key for a server elsewhere."""
    return os.environ.get(API_KEY, "")


def add_text(parser: Parser, name: str, summary: str) -> None:
    """Add a text, and the file to read it from instead."""
    parser.add_argument("text", nargs="?", metavar=name, help=f"{summary}; - for stdin.")
    parser.add_argument("--file", metavar="FILE", help=f"Read the {name.lower()} from this file.")


def add_model(parser: Parser) -> None:
    """Add the options that choose the model."""
    parser.add_argument("--provider", help="Provider of the model: openai, offline … [one that has a key].")
    parser.add_argument("--model", help="Model, as provider/model.")
