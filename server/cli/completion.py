"""Scripts that complete the command line in a shell, made from the parser."""

import argparse
from collections.abc import Iterator
from typing import Final, NamedTuple

from callsheet.server.cli.parsing import Args, Parser

SHELLS: Final = ("bash", "zsh", "fish")
_BASH: Final = """\
_callsheet() {{
  local path="" word words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    [[ "$word" == -* ]] || path="$path $word"
  done
  case "${{path# }}" in
{cases}
  esac
  if [[ -n "$words" ]]; then
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
  else
    COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
  fi
}}
complete -F _callsheet callsheet
"""


class _Command(NamedTuple):
    """A command with what may follow it; both kinds of words have help."""

    path: str
    below: list[tuple[str, str]]
    options: list[tuple[str, str]]


def print_script(args: Args) -> None:
    """Print the script for a shell."""
    commands = [*_commands(args.build_parser())]
    print(_fish(commands) if args.shell == "fish" else _bash(commands, zsh=args.shell == "zsh"))  # noqa: T201


def _commands(parser: Parser, path: str = "") -> Iterator[_Command]:
    """Yield each command, those below another one first."""
    for name, (_, below) in parser.commands.items():
        yield from _commands(below, f"{path} {name}".strip())
    options = [
        (flag, action.help or "")
        for action in parser.arguments
        for flag in action.option_strings
        if flag.startswith("--") and action.help != argparse.SUPPRESS
    ]
    yield _Command(path, [(name, summary) for name, (summary, _) in parser.commands.items()], options)


def _bash(commands: list[_Command], *, zsh: bool) -> str:
    cases = []
    for command in commands:
        words = " ".join(name for name, _ in (*command.below, *command.options))
        # Words after a command are its arguments.
        pattern = f'"{command.path}"' if command.below else f'"{command.path}" | "{command.path} "*'
        cases.append(f'    {pattern}) words="{words}" ;;')
    start = "#compdef callsheet\nautoload -U +X bashcompinit && bashcompinit\n" if zsh else ""
    return start + _BASH.format(cases="\n".join(cases)).rstrip()


def _fish(commands: list[_Command]) -> str:
    lines = []
    for path, below, options in commands:
        seen = "".join(f"__fish_seen_subcommand_from {word}; and " for word in path.split())
        names = " ".join(name for name, _ in below)
        condition = _quote(seen + (f"not __fish_seen_subcommand_from {names}" if names else "true"))
        lines += [
            f"complete -c callsheet -f -n {condition} -a {name} -d {_quote(text)}" for name, text in below
        ]
        lines += [
            f"complete -c callsheet -n {condition} -l {flag[2:]} -d {_quote(text)}" for flag, text in options
        ]
    return "\n".join(lines)


def _quote(words: str) -> str:
    return "'" + words.replace("\\", "\\\\").replace("'", "\\'") + "'"
