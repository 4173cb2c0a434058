"""The `callsheet` command: a client of the server, and the commands that start one."""

import argparse
import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

from dotenv import load_dotenv

from callsheet.server.cli import (
    artefacts,
    completion,
    operator_commands,
    pronunciations,
    server_commands,
    wire,
)
from callsheet.server.cli.client import Place, ServerClient
from callsheet.server.cli.kinds import ADS, CAMPAIGNS, KINDS, LESSONS, PAGES, REDO, UNDO, VIDEOS, Kind
from callsheet.server.cli.output import print_error, say
from callsheet.server.cli.parsing import (
    Args,
    CommandGroup,
    Parser,
    UsageError,
    add_data_dir,
    add_model,
    add_text,
    api_key,
)
from callsheet.server.cli.turns import INTERRUPTED, StoppedError
from callsheet.server.settings.installation import installed_version
from callsheet.server.settings.variables import normalise_variables
from callsheet.state.errors import CallsheetError

_SUMMARY: Final = (
    "Make and refine audio ads, landing pages, lessons and videos, and ask about campaigns; "
    "every version is kept."
)
_ALIASES: Final = ("ad", "page", "lesson", "scenes", "ask")
_HIDDEN: Final = argparse.SUPPRESS
_CONTEXT: Final = "Context of the run, a JSON object, for a graph with a context schema."


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    0: made or shown; 1: refused, or nothing made; 2: wrong usage; 130: after Ctrl-C. `args` default to the
    process's own.
    """
    words = [*(sys.argv[1:] if args is None else args)]
    if "--debug" not in words:
        sys.excepthook = report_unexpected
    sys.exit(_run(words))


def _run(words: list[str]) -> int:
    load_dotenv(".env")
    normalise_variables(os.environ)
    try:
        try:
            code = _execute(build_parser().parse(words))
        except SystemExit as ended:
            # Help was shown.
            code = int(ended.code or 0)
        sys.stdout.flush()
    except UsageError as error:
        print_error(error.message, f"see {error.command} --help")
        return 2
    except CallsheetError as error:
        if "--debug" in words:
            raise
        print_error(error.message, error.remedy)
        return 1
    except (KeyboardInterrupt, StoppedError):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _execute(args: Args) -> int:
    if args.version_of_program:
        print(f"callsheet {installed_version()}")  # noqa: T201 -- what is asked for
        return 0
    if args.help_of is not None:
        args.help_of.print_help()
        return 0
    if args.local:
        return args.run(args) or 0
    # An admin's key elsewhere may name the owner of data; other commands mean the key's owner.
    owner = "" if args.url and args.for_owner else args.owner
    client = ServerClient(Place(args.url, api_key(), owner, args.data_dir), say)
    try:
        return args.run(client, args) or 0
    finally:
        client.close()


def build_parser() -> Parser:
    """Return the parser of the whole command line."""
    parser = Parser(prog="callsheet", description=_SUMMARY)
    parser.add_argument(
        "--version", action="store_true", dest="version_of_program", help="Show the version and exit."
    )
    root = CommandGroup(parser)
    for kind in KINDS:
        _add_kind(root, kind)
    _add_wire(root)
    _add_server(root)
    for name in _ALIASES:
        _add_short(root, name)
    shells = root.command("completion", completion.print_script, "Print a script for a shell.", local=True)
    shells.add_argument("shell", choices=completion.SHELLS, help="bash, zsh or fish")
    shells.set_defaults(build_parser=build_parser)
    return parser


def _add_kind(root: CommandGroup, kind: Kind) -> None:
    group = root.group(kind.noun, f"{kind.noun.capitalize()}: {', '.join(_verbs(kind))}.")
    create = group.command("new", artefacts.new, f"Make {kind.one}.", f'{kind.noun} new "{kind.example}"')
    chat = group.command(
        "chat",
        artefacts.chat,
        f"Refine {kind.one}, or answer its question.",
        f'{kind.noun} chat ID "{kind.refinement}"',
    )
    _add_id(chat)
    for parser in (create, chat):
        _add_message(parser, kind, new=parser is create)
    _add_reading(group, kind)
    _add_files(group, kind)
    _add_changes(group, kind)
    for parser in group.parsers:
        parser.set_defaults(kind=kind)


def _verbs(kind: Kind) -> list[str]:
    verbs = {
        "versions, diff": kind.versioned,
        "activate": kind.activates,
        "restore": kind.restores,
        "export": kind.exports,
        "undo, redo, preview": kind is VIDEOS,
        "listen": kind in {ADS, LESSONS},
        "pronunciations": kind is ADS,
        "quiz": kind is LESSONS,
        "check": kind is PAGES,
        "import": kind is CAMPAIGNS,
        "delete": kind.deletes,
    }
    return ["new", "chat", "list", "show", *(verb for verb, has in verbs.items() if has)]


def _add_message(parser: Parser, kind: Kind, *, new: bool) -> None:
    add_text(parser, "TEXT", "The material, or what is wanted" if kind is LESSONS else "What is wanted")
    for flag, settings in kind.options.items():
        plain = "type" not in settings and "action" not in settings and flag in {"--review", "--images"}
        extra: dict[str, Any] = {"action": "store_true", "default": None} if plain else {}
        parser.add_argument(flag, **{**extra, **settings})
    if new:
        parser.set_defaults(id=None)
        if kind is not CAMPAIGNS:
            parser.add_argument("--id", metavar="ID", help=f"Id of the new {kind.name} [a random one].")
        if kind is VIDEOS:
            parser.add_argument("--starter", metavar="NAME", help="Begin with this starter project.")
        _add_source(parser, kind)
    if kind is ADS:
        _add_save(parser, "Write what is heard to this file, .mp3, .ogg or .wav.")
    _add_answers(parser)
    add_model(parser)


def _add_source(parser: Parser, kind: Kind) -> None:
    if kind is ADS:
        parser.add_argument(
            "--from-campaign",
            dest="source",
            action="append",
            metavar="ID",
            help="Make it of this campaign's offer; may be repeated. TEXT says what else is wanted.",
        )
        parser.add_argument("--client", help="Who the ad is for [the campaigns' company].")
    elif kind is PAGES:
        parser.add_argument("--from-ad", dest="source", metavar="ID", help="Begin with the words of this ad.")
    elif kind is VIDEOS:
        parser.add_argument(
            "--from-lesson", dest="source", metavar="ID", help="Begin with the narration of this lesson."
        )


def _add_answers(parser: Parser) -> None:
    group = parser.add_mutually_exclusive_group()
    answer = "Answer to the question [asked in the terminal]."
    parser.remember(group.add_argument("--answer", metavar="TEXT", help=answer))
    parser.remember(group.add_argument("--choose", dest="answer", help=_HIDDEN))
    for word, meaning in (("yes", "Approve what is asked, but no budget."), ("no", "Reject what is asked.")):
        action = group.add_argument(
            f"--{word}", dest="answer", action="store_const", const=word, help=meaning
        )
        parser.remember(action)


def _add_reading(group: CommandGroup, kind: Kind) -> None:
    listing = group.command("list", artefacts.list_, f"List the {kind.noun}, newest change first.")
    listing.add_argument("--limit", type=int, default=20, help="How many [20].")
    _add_id(group.command("show", artefacts.show, "Show one as it is now."))
    if kind.versioned:
        versions = group.command("versions", artefacts.versions, "List the versions, newest last.")
        _add_id(versions)
        default = kind.stream or "all"
        versions.add_argument("stream", nargs="?", help=f"{kind.streams or 'a stream'} [{default}].")
        diff = group.command("diff", artefacts.diff, "Compare two versions.")
        _add_id(diff)
        _add_stream(diff, kind)
        diff.add_argument("old", metavar="OLD", help="Version, such as v1.")
        diff.add_argument("new", metavar="NEW", help="Version, such as v2.")


def _add_files(group: CommandGroup, kind: Kind) -> None:
    exported = group.command(
        "export", artefacts.export, f"Write one to a file, as {' or '.join(kind.formats)}."
    )
    if kind is CAMPAIGNS:
        exported.add_argument(
            "--id", metavar="ID", help="The last result of this conversation [the library]."
        )
    else:
        _add_id(exported)
    _add_output(exported)
    if kind in {PAGES, LESSONS}:
        exported.add_argument("--version", help="Version [the newest].")
    if kind is PAGES:
        address = "Address at which a ZIP file's page will be served, for previews of links."
        exported.add_argument("--site", metavar="ADDRESS", help=address)
        checks = group.command("check", artefacts.check, "Check one before it is published.")
        _add_id(checks)
        checks.add_argument("--version", help="Version [the newest].")
    if kind is LESSONS:
        exported.add_argument("--format", help="md, srt, vtt, json or slides [the file's ending].")
        exported.add_argument(
            "--timing",
            choices=("measured", "written"),
            help="Times of subtitles [measured, if the narration was listened to].",
        )
        _add_quiz(group)
    if kind is VIDEOS:
        _add_video(group)
    if kind in {ADS, LESSONS}:
        _add_listen(group, kind)
    if kind is CAMPAIGNS:
        imported = group.command("import", artefacts.import_, "Import a CSV, JSON, JSON Lines or Excel file.")
        imported.add_argument("output", metavar="FILE", help="The file.")
        _add_import(imported)


def _add_listen(group: CommandGroup, kind: Kind) -> None:
    example = f"{kind.noun} listen ID --save {kind.name}.mp3"
    parser = group.command("listen", artefacts.listen, "Hear one: write a sound file, or play it.", example)
    _add_id(parser)
    _add_save(parser, "Write this file, .mp3, .ogg or .wav [play it].")
    parser.add_argument("--play", action="store_true", help="Play it, also where a file is written.")
    if kind is LESSONS:
        parser.add_argument("--segment", help="Hear one segment, such as hook [all].")
        parser.add_argument("--version", help="Version of the narration [the newest].")
        return
    _add_pronunciations(group)
    parser.add_argument("--track", help="Hear one track, such as track-0, or voices, music or sfx [all].")
    parser.add_argument("--active", action="store_true", help="Hear the active versions [the newest].")
    parser.add_argument("--profile", help="spotify, ebu-r128, atsc-a85, podcast or plain [spotify].")


def _add_pronunciations(group: CommandGroup) -> None:
    parser = group.command(
        "pronunciations",
        pronunciations.pronunciations,
        "Show or set how names are spoken: in one ad, or in all ads and narrations of yours.",
        'ads pronunciations ID --set "Miel=mee-ell"',
    )
    parser.add_argument("id", nargs="?", metavar="ID", help="The ad [all ads and narrations of yours].")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=WORDS", help="How to speak a name."
    )
    parser.add_argument("--remove", action="append", default=[], metavar="NAME", help="Speak it as written.")


def _add_video(group: CommandGroup) -> None:
    for name, route, summary in (
        ("undo", UNDO, "Undo the newest plan."),
        ("redo", REDO, "Redo the newest undo."),
    ):
        changed = group.command(name, artefacts.change_video, summary)
        _add_id(changed)
        changed.set_defaults(route=route)
    preview = group.command("preview", artefacts.preview, "Write a page that plays it.")
    _add_id(preview)
    _add_output(preview)


def _add_quiz(group: CommandGroup) -> None:
    parser = group.command(
        "quiz", artefacts.quiz, "Write a quiz about the chosen facts to a file.", "lessons quiz ID quiz.md"
    )
    _add_id(parser)
    _add_output(parser)
    parser.add_argument("--format", help="md, csv (for Anki), qti (a ZIP file) or json [the file's ending].")
    parser.add_argument("--write", action="store_true", help="Have the model write another one first.")
    parser.add_argument("--count", type=int, help="Questions of one that is written [one for each fact].")
    add_model(parser)


def _add_save(parser: Parser, summary: str) -> None:
    parser.add_argument("--save", metavar="FILE", help=summary)


def _add_import(parser: Parser) -> None:
    parser.add_argument("--all-or-nothing", action="store_true", help="Refuse a file with a wrong row.")
    parser.add_argument("--encoding", metavar="NAME", help="Encoding, such as cp1252 [found out].")
    parser.add_argument(
        "--mapping", metavar="JSON", help='Fields by heading, such as {"Werbemittel": "campaign_text"}.'
    )
    parser.add_argument(
        "--defaults", metavar="JSON", help='Values of missing fields, such as {"channel": "linkedin"}.'
    )


def _add_changes(group: CommandGroup, kind: Kind) -> None:
    changes = (
        ("activate", kind.activates, "Activate a version.", "Activated {version}."),
        ("restore", kind.restores, "Restore a version as a new one.", "Restored {version} as a new version."),
        ("delete", kind.deletes, "Delete one with everything that belongs to it.", "Deleted {id}."),
    )
    for name, route, summary, done in changes:
        if route is None:
            continue
        is_scene = kind is VIDEOS and name == "restore"
        parser = group.command(name, artefacts.change_video if is_scene else artefacts.change, summary)
        _add_id(parser)
        parser.set_defaults(route=route, done=done, asks=name == "delete")
        if name == "delete":
            parser.add_argument("--yes", action="store_true", help="Do not ask.")
            continue
        _add_stream(parser, kind)
        parser.add_argument("version", metavar="VERSION", help="Such as v1.")


def _add_stream(parser: Parser, kind: Kind) -> None:
    if kind.stream:
        parser.set_defaults(stream=kind.stream)
    else:
        parser.add_argument("stream", metavar="STREAM", help=f"{kind.streams}.")


def _add_short(root: CommandGroup, name: str) -> None:
    kind = artefacts.kind_of("video" if name == "scenes" else name)
    summary = f"Short for: {kind.noun} new, and with --id for: {kind.noun} chat."
    if kind is VIDEOS:
        summary = "Short for: videos new, chat, undo and preview."
    parser = root.command(name, artefacts.short, summary, f'{name} "{kind.example}"')
    parser.set_defaults(
        kind=kind, named=None, undo=False, preview=None, starter=None, imported=None, route=UNDO
    )
    if kind is VIDEOS:
        parser.add_argument("id", metavar="ID", help="Id of the video.")
    _add_message(parser, kind, new=False)
    if kind is VIDEOS:
        parser.add_argument("--starter", metavar="NAME", help="Make the video of this starter project.")
        parser.add_argument("--undo", action="store_true", help="Undo the newest plan.")
        parser.add_argument("--preview", metavar="FILE", help="Write a page that plays it.")
        return
    parser.add_argument("--id", metavar="ID", help="Continue this one [make a new one].")
    # Names that the option had before.
    for old in ("--thread", f"--{kind.name}"):
        parser.add_argument(old, dest="id", help=_HIDDEN)
    parser.add_argument("--ad-id", dest="named", help=_HIDDEN)
    if kind is CAMPAIGNS:
        parser.add_argument("--import", dest="imported", metavar="FILE", help="Import this file first.")
        _add_import(parser)


def _add_wire(root: CommandGroup) -> None:
    run = root.command(
        "run",
        wire.run,
        "Run any served graph and answer its questions.",
        'run ad_creation "30 seconds for Miel, a bakery in Lyon"',
    )
    run.add_argument("graph", metavar="GRAPH", help="Name of the graph, as in langgraph.json.")
    run.add_argument("text", nargs="?", metavar="TEXT", help="The message; - for stdin.")
    run.add_argument("--id", metavar="ID", help="Continue this thread [a new one].")
    run.add_argument("--thread", dest="id", help=_HIDDEN)
    run.add_argument("--input", metavar="JSON", help="Input of the graph beside TEXT, a JSON object.")
    run.add_argument("--context", metavar="JSON", help=_CONTEXT)
    run.add_argument("--answer", help="Answer to the question that waits: JSON, or text.")
    add_model(run)
    questions = root.group("questions", "Questions of all workflows that wait for an answer: list, answer.")
    listing = questions.command("list", wire.list_questions, "List the questions, newest first.")
    listing.add_argument("--limit", type=int, default=20, help="How many [20].")
    answer = questions.command(
        "answer", wire.answer_question, "Answer a question.", "questions answer ID yes"
    )
    _add_id(answer)
    answer.add_argument("answer", nargs="?", metavar="ANSWER", help="JSON, or text [asked in the terminal].")
    answer.add_argument("--context", metavar="JSON", help=_CONTEXT)
    add_model(answer)
    search = root.command(
        "search", wire.search, "Find threads of all workflows by words.", "search sourdough"
    )
    search.add_argument("words", nargs="+", metavar="WORD", help="All of them occur in what is found.")
    search.add_argument("--limit", type=int, default=20, help="How many [20].")
    _add_threads(root.group("threads", "Threads: list, show, rename, export, import, delete."))
    _add_data(root.group("data", "Everything that an owner has: export, import."))
    _add_runs(root.group("runs", "Runs: list, show, cancel."))
    _add_operator(root)


def _add_operator(root: CommandGroup) -> None:
    audit = root.group("audit", "Actions of people and operators: list, export.")
    listing = audit.command("list", operator_commands.list_actions, "List the actions, newest first.")
    listing.add_argument("--limit", type=int, default=50, help="How many [50].")
    export = audit.command(
        "export",
        operator_commands.export_actions,
        "Write the actions to a file, oldest first, as JSON lines.",
    )
    _add_output(export)
    for parser in (listing, export):
        parser.add_argument("--since", metavar="TIME", help="Since 30m, 2h, 7d, a day or a time [all].")
        parser.add_argument("--action", help="Only this one, such as delete or key.revoke.")
    usage = root.command(
        "usage",
        operator_commands.show_usage,
        "Show the use of models, with its cost.",
        "usage --by owner,model --csv",
    )
    usage.add_argument(
        "--by",
        metavar="PARTS",
        help="owner, day and model, with commas; owner needs an admin key elsewhere [day,model].",
    )
    usage.add_argument("--from", dest="first", metavar="DAY", help="First day, as 2026-11-30 [30 days ago].")
    usage.add_argument("--to", dest="last", metavar="DAY", help="Last day [today].")
    usage.add_argument("--csv", action="store_true", help="Print CSV.")


def _add_threads(group: CommandGroup) -> None:
    listing = group.command("list", wire.list_threads, "List threads, last changed first.")
    listing.add_argument("--limit", type=int, default=20, help="How many [20].")
    _add_id(group.command("show", wire.show_thread, "Show a thread and what was said."))
    rename = group.command(
        "rename", wire.rename_thread, "Give a thread a title.", 'threads rename harbour "Summer in Porto"'
    )
    _add_id(rename)
    rename.add_argument("title", metavar="TITLE", help='The title; "" for the one it had.')
    export = group.command(
        "export",
        wire.export_thread,
        "Write a thread and its artefacts to a file.",
        "threads export harbour harbour.jsonl",
    )
    _add_id(export)
    _add_output(export)
    imported = group.command("import", wire.import_thread, "Create a thread from a file.")
    imported.add_argument("output", metavar="FILE", help="An exported thread; - for stdin.")
    imported.add_argument("--as", dest="as_id", metavar="ID", help="Id of the new thread [the file's].")
    imported.add_argument(
        "--trust", action="store_true", help="Read types of any library; only for files of your own."
    )
    delete = group.command("delete", wire.delete_thread, "Delete a thread; its ads, pages and videos stay.")
    _add_id(delete)
    delete.add_argument("--yes", action="store_true", help="Do not ask.")


def _add_data(group: CommandGroup) -> None:
    export = group.command(
        "export",
        wire.export_data,
        "Write everything that an owner has to a file.",
        "data export --owner anna anna.jsonl",
    )
    _add_output(export)
    imported = group.command("import", wire.import_data, "Import an owner's file where none of it exists.")
    imported.add_argument("output", metavar="FILE", help="Exported data.")
    imported.add_argument(
        "--trust", action="store_true", help="Read types of any library; only for files of your own."
    )
    for parser in (export, imported):
        parser.set_defaults(for_owner=True)


def _add_runs(group: CommandGroup) -> None:
    listing = group.command(
        "list",
        wire.list_runs,
        "List the runs that have not ended, newest first.",
        "runs list --all-owners --status error --since 2h",
    )
    listing.add_argument("--limit", type=int, default=50, help="How many [50].")
    listing.add_argument(
        "--all-owners", action="store_true", help="Of all owners; on a server elsewhere with an admin key."
    )
    listing.add_argument(
        "--status", metavar="STATUS", help="pending, running, error or timeout, with commas; of all owners."
    )
    listing.add_argument("--since", metavar="TIME", help="Since 30m, 2h, 7d, a day or a time; of all owners.")
    show = group.command("show", wire.show_run, "Show a run's record as JSON.")
    cancel = group.command("cancel", wire.cancel_run, "Cancel a run.")
    cancel.add_argument("--rollback", action="store_true", help="Delete its states; versions stay.")
    for parser in (listing, show, cancel):
        whose = "All runs of this thread" if parser is listing else "Thread of the run, once it has ended"
        parser.add_argument("--id", metavar="THREAD", help=f"{whose}.")
        parser.add_argument("--thread", dest="id", help=_HIDDEN)
    for parser in (show, cancel):
        parser.add_argument("run_id", metavar="RUN", help="As the list shows it.")


def _add_server(root: CommandGroup) -> None:
    serve = root.command(
        "serve",
        server_commands.serve,
        "Start the server: REST under /api, documentation under /docs.",
        local=True,
    )
    serve.add_argument("--for-terminals", metavar="SOCKET", help=_HIDDEN)
    worker = root.command(
        "worker", server_commands.worker, "Execute runs of a server, on this or another machine.", local=True
    )
    doctor = root.command(
        "doctor", server_commands.doctor, "Check everything the server needs, and name remedies.", local=True
    )
    for parser in (serve, doctor):
        parser.add_argument("--host", help="Address of the server [127.0.0.1].")
        parser.add_argument("--port", type=int, help="Port of the server, 0 for any free one [2024].")
    config = root.group("config", "The settings: show.")
    shown = config.command(
        "show", server_commands.show_config, "Show what is set, and where; secrets are hidden.", local=True
    )
    shown.add_argument("--all", action="store_true", help="Show the defaults, too.")
    for parser in (doctor, shown):
        parser.add_argument("--json", action="store_true", help="Print JSON.")
    for parser in (serve, worker, doctor, shown):
        add_data_dir(parser)
    _add_keys(root.group("keys", "API keys: create, list, rotate, revoke."))


def _add_keys(keys: CommandGroup) -> None:
    create = keys.command("create", server_commands.create_key, "Create a key and print it.", local=True)
    create.add_argument("owner", metavar="OWNER", help="Owner whose data the key opens; any name.")
    create.add_argument(
        "--permission",
        choices=("read", "write", "admin"),
        default="write",
        help="Each includes those before [write].",
    )
    create.add_argument("--days", type=float, help="Days until it expires [never].")
    create.add_argument("--name", default="", help="Name for the list.")
    listing = keys.command("list", server_commands.list_keys, "List the keys, oldest first.", local=True)
    listing.add_argument("--owner", help="Only keys of this owner.")
    rotate = keys.command(
        "rotate", server_commands.rotate_key, "Create a key in place of another one.", local=True
    )
    _add_id(rotate)
    rotate.add_argument(
        "--grace", type=float, default=24, metavar="HOURS", help="Hours for which the old one works [24]."
    )
    revoke = keys.command("revoke", server_commands.revoke_key, "Revoke a key.", local=True)
    _add_id(revoke)
    for parser in (create, listing, rotate):
        parser.add_argument("--json", action="store_true", help="Print JSON.")
    for parser in (create, listing, rotate, revoke):
        add_data_dir(parser)


def _add_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="As the list shows it.")


def _add_output(parser: Parser) -> None:
    parser.add_argument(
        "output", nargs="?", default="-", metavar="FILE", help="File to write; - for stdout [-]."
    )


def report_unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an unexpected exception in two lines, in place of `sys.excepthook`."""
    del trace
    print_error(
        f"this should not have happened: {kind.__name__}: {error}", "run it again with --debug and report it"
    )


if __name__ == "__main__":
    main()
