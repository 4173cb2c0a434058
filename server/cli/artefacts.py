"""Commands about what workflows make, the same for every kind: make, refine, show, compare, export."""

import json
import secrets
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from callsheet.server.cli import answers, listening, rendering
from callsheet.server.cli.client import ServerClient, path_part
from callsheet.server.cli.kinds import ADS, CAMPAIGNS, KINDS, LESSONS, PAGES, VIDEOS, Kind, KindRoute
from callsheet.server.cli.output import (
    NextCommand,
    age,
    print_json,
    print_parts,
    print_table,
    say,
    show_progress,
    text,
)
from callsheet.server.cli.parsing import Args, UsageError, did_you_mean, format_by_ending
from callsheet.server.cli.remedies import in_terminal
from callsheet.server.cli.text_input import read_bytes, read_text
from callsheet.server.cli.turns import StoppedError, TurnMessage, send
from callsheet.server.settings.installation import program
from callsheet.state.entered import UPLOADED
from callsheet.state.errors import Conflict, Invalid, Missing, Unavailable
from callsheet.state.uploads import MAX_IMPORT

_REQUEST_FIELDS: Final = ("language", "market", "duration")
_STDIO: Final = "-"
_QUIZ_FORMATS: Final = {".md": "md", ".csv": "csv", ".zip": "qti", ".json": "json"}
_TIMING: Final = {"measured": "measured on the rendered speech", "written": "those of the written narration"}
_NAMED: Final = (ADS, PAGES, VIDEOS)
"""Kinds whose ids the caller may choose."""


def new(client: ServerClient, args: Args) -> int:
    """Make a thing from a message."""
    kind: Kind = args.kind
    name, fields = args.id, _fields(args)
    if name and exists(client, kind, name):
        raise Conflict(
            f"there is already {kind.one} {name!r}", remedy=f"refine it: {_command(kind, 'chat', name)} …"
        )
    if getattr(args, "source", None):
        return _new_from_source(client, args, fields)
    if getattr(args, "save", None):
        listening.format_of(args.save)
    words = _words(args, "the brief" if kind is ADS else "the message")
    brief: Any = words
    if kind is ADS:
        brief, named, saved = _brief(words, args.file)
        name, fields = named if name is None else name, {**saved, **fields}
    name = _new_name(client, kind, name)
    if kind is LESSONS and args.file:
        name, brief = _upload(client, name or "", args)
    if kind is VIDEOS:
        starter = {"starter": args.starter} if args.starter else {}
        client.call("POST", "/api/projects", json={"id": name, **starter})
        if not brief:
            args.id = name
            return show(client, args)
    return _converse(client, args, TurnMessage(kind, name or "", brief, new=True, fields=fields))


def _new_name(client: ServerClient, kind: Kind, chosen: str | None) -> str | None:
    """Return the chosen name, a new one, or None for one by the server; a lesson's thread is made first."""
    if chosen is not None and kind is LESSONS:
        client.call("POST", "/threads", json={"thread_id": chosen})
    return f"{kind.name}-{secrets.token_hex(5)}" if chosen is None and kind in _NAMED else chosen


def _new_from_source(client: ServerClient, args: Args, fields: Mapping[str, Any]) -> int:
    """Make an ad of campaigns, a page of an ad, or a video of a lesson; show it."""
    kind: Kind = args.kind
    words = read_text(args.text, args.file, "the message") if args.text or args.file else ""
    if kind is ADS:
        body = {
            **fields,
            "campaignIds": args.source,
            "adId": args.id,
            "client": args.client,
            "wish": words or None,
        }
    elif words:
        raise UsageError("a text comes later, with chat", f"callsheet {kind.noun} new")
    elif kind is PAGES:
        body = {"adId": args.source, "pageId": args.id}
    else:
        body = {"lessonId": args.source, "id": args.id}
    given = {name: value for name, value in body.items() if value is not None}
    try:
        reply = client.call("POST", kind.lists, json=given).json()
    except Missing as error:
        names = [args.source] if isinstance(args.source, str) else args.source
        missing = next((name for name in names if repr(name) in error.message), None)
        if missing is None:
            raise
        raise _unknown(client, {ADS: CAMPAIGNS, PAGES: ADS}.get(kind, LESSONS), missing) from error
    args.id = reply[kind.id_field]
    if kind is not ADS or args.json:
        return show(client, args)
    message = TurnMessage(kind, args.id, "", new=True)
    _show_turn(client, args, message, reply)
    return 0 if _has_outcome(message, args, reply) else 1


def chat(client: ServerClient, args: Args) -> int:
    """Refine a thing, or answer its question."""
    kind: Kind = args.kind
    thread = find(client, kind, args.id)["conversationId"]
    if kind is LESSONS and args.file:
        _, words = _upload(client, args.id, args)
    elif args.text is None and args.file is None:
        words = answers.option_answer(args, client, thread)
    else:
        words = _words(args, "the message")
    return _converse(client, args, TurnMessage(kind, args.id, words, fields=_fields(args)))


def change_video(client: ServerClient, args: Args) -> int:
    """Undo or redo a plan of a video, or restore a scene, by the command's route, and show what was done."""
    find(client, VIDEOS, args.id)
    names = {name: getattr(args, name, None) or "-" for name in ("id", "stream", "version")}
    path = args.route.path.format(**{name: path_part(value) for name, value in names.items()})
    return _converse(client, args, TurnMessage(VIDEOS, args.id, "", path=path))


def _converse(client: ServerClient, args: Args, message: TurnMessage) -> int:
    """Send the message and the answers to the questions that follow; show the result."""
    kind = message.kind
    try:
        reply = _send(client, args, message)
        while (answer := answers.to_pending(client, args, reply)) is not None:
            reply = _send(client, args, TurnMessage(kind, _id(kind, reply), answer, fields=_model(args)))
    except (StoppedError, KeyboardInterrupt) as stop:
        run = "run is cancelled" if isinstance(stop, StoppedError) else "question stays open"
        say(f"Stopped: the {run}, and everything made so far is kept.")
        say(f"Go on with: {_command(kind, 'chat', message.id or 'ID', args)} …")
        raise
    if args.json:
        print_json(reply)
    else:
        _show_turn(client, args, message, reply)
    if getattr(args, "save", None) and reply.get("created"):
        body = {"format": listening.format_of(args.save)}
        write(listening.render(client, kind.renders, _id(kind, reply), body, quiet=args.json)[1], args.save)
    return 0 if _has_outcome(message, args, reply) else 1


def _send(client: ServerClient, args: Args, message: TurnMessage) -> dict[str, Any]:
    with show_progress(quiet=args.json) as on_step:
        return send(client, message, on_step)


def _show_turn(client: ServerClient, args: Args, message: TurnMessage, reply: Mapping[str, Any]) -> None:
    kind, name = message.kind, _id(message.kind, reply)
    seen = kind is ADS and reply["created"]
    view = client.get(kind.shows.format(id=path_part(name))) if seen else reply
    label, example = "Go on", kind.follow_up(reply)
    if reply.get("question") or reply.get("interrupt"):
        label, example = "Answer", answers.example(client, reply)
    elif str(message.text).casefold() == example or not reply.get("narration", True):
        example = "…"
    lines = [(label, f"{_command(kind, 'chat', name, args)} {shlex.quote(example)}")]
    if kind is not CAMPAIGNS:
        lines.append(("Look", _command(kind, "show", name, args)))
    print_parts([*rendering.turn_parts(kind, reply, view), NextCommand(*lines)])


def _has_outcome(message: TurnMessage, args: Args, reply: Mapping[str, Any]) -> bool:
    """Return whether the turn made, asked or answered something."""
    if reply.get("question") or reply.get("interrupt") or getattr(args, "answer", None) is not None:
        return True
    if execution := reply.get("execution"):
        return bool(execution["success"])
    if reply.get("created") and reply.get("success", True):
        return True
    calls = reply.get("toolCalls") or reply.get("steps") or ()
    failed = any(call["status"] != "completed" for call in calls)
    # The offline model answers by a tool, or declines; any other model may answer in words.
    declined = not calls and reply["provider"] == "offline"
    return not (failed or declined or (message.new and message.kind is not CAMPAIGNS))


def list_(client: ServerClient, args: Args) -> None:
    """List the things of a kind, newest change first."""
    kind: Kind = args.kind
    page = client.get(kind.lists, limit=args.limit)
    if args.json:
        print_json(page)
        return
    items = page[kind.list_field]
    rows = [
        [one[kind.id_field], *(_cell(name, one.get(name)) for name in kind.columns.values())] for one in items
    ]
    empty = f"There are none. Make one with: {program()} {kind.noun} new"
    print_table(["Id", *kind.columns], rows, empty)
    if len(items) == args.limit and page.get("next", True):
        say(f"These are the first {args.limit}; see more with --limit.")


def show(client: ServerClient, args: Args) -> int:
    """Show a thing as it is now."""
    kind: Kind = args.kind
    view = _shown(client, kind, args.id)
    if args.json:
        print_json(view)
    else:
        print_parts(rendering.view_parts(kind, view))
    return 0


def _shown(client: ServerClient, kind: Kind, name: str) -> dict[str, Any]:
    """Return the view of a thing; raise `Missing` with the nearest id for none."""
    try:
        return dict(client.get(kind.shows.format(id=path_part(name))))
    except Missing as error:
        raise _unknown(client, kind, name) from error


def versions(client: ServerClient, args: Args) -> None:
    """List the versions of a thing, newest last."""
    kind: Kind = args.kind
    view = find(client, kind, args.id)
    chosen = args.stream or kind.stream
    streams = [chosen] if chosen else [name for name, one in view["streams"].items() if one["count"]]
    listed = {name: _all_versions(client, _stream_path(kind, args.id, name)) for name in streams}
    if args.json:
        print_json(listed)
        return
    rows = [
        (name, *rendering.version_cells(one, active=one["id"] == stream["active"]))
        for name, stream in listed.items()
        for one in stream["versions"]
    ]
    titles = ("Stream", "Version", "Status", "Made", "By", "Summary")
    if kind.stream:
        titles, rows = titles[1:], [row[1:] for row in rows]  # type: ignore[assignment]
    print_table(titles, rows, "There are no versions yet.")


def _all_versions(client: ServerClient, path: str) -> dict[str, Any]:
    """Return a list of versions with those of all its pages."""
    page: dict[str, Any] = client.get(path)
    listed = page["versions"]
    while page["before"]:
        page = client.get(f"{path}?limit=200&before={page['before']}")
        listed = [*page["versions"], *listed]
    return {**page, "versions": listed}


def diff(client: ServerClient, args: Args) -> int:
    """Compare two versions of a thing."""
    kind: Kind = args.kind
    if kind is PAGES:
        find(client, kind, args.id)
        path = f"/api/pages/{path_part(args.id)}/diff"
        reply = client.get(path, **{"from": args.old, "to": args.new})
        words = "\n".join(one["text"] for one in reply["changes"])
    else:
        find(client, kind, args.id)
        path = _stream_path(kind, args.id, args.stream or kind.stream)
        reply = client.get(f"{path}/{path_part(args.old)}/diff/{path_part(args.new)}")
        words = reply["text"]
    if args.json:
        print_json(reply)
    else:
        print_parts([text(words or "Nothing is different.")])
    return 0


def change(client: ServerClient, args: Args) -> None:
    """Activate or restore a version, or delete a thing: the command's route says which."""
    kind, route = args.kind, args.route
    view = find(client, kind, args.id) if kind is not CAMPAIGNS else _shown(client, kind, args.id)
    if args.asks and not args.yes and not answers.confirm(f"Delete {kind.item} {args.id!r} for good?"):
        raise Conflict("nothing was deleted", remedy="answer yes, or use --yes")
    reply = _call(client, route, args, view).json()
    if args.json:
        print_json(reply)
    else:
        say(args.done.format(id=args.id, version=getattr(args, "version", "")))


def export(client: ServerClient, args: Args) -> None:
    """Write a thing to a file."""
    kind: Kind = args.kind
    form = getattr(args, "format", None) or format_by_ending(args.output, kind.formats, kind.elsewhere)
    view = find(client, kind, args.id) if args.id and kind is not CAMPAIGNS else {}
    chosen = {"version": args.version, "format": form, "timing": args.timing} if kind is LESSONS else {}
    if kind is PAGES:
        chosen = {"version": args.version, "format": form, "url": args.site}
    chosen |= {"conversationId": args.id} if kind is CAMPAIGNS else {}
    params = {name: value for name, value in chosen.items() if value}
    path = "/api/projects/{id}/timeline.otio" if form == "otio" else kind.exports
    reply = _call(client, KindRoute("GET", path), args, view, params=params)
    write(reply.content, args.output)
    if kind is PAGES and not args.version:
        _say_active(view["streams"]["page"])
    if timing := reply.headers.get("X-Subtitle-Timing"):
        hint = f"; measured ones follow {_command(kind, 'listen', args.id)}" if timing == "written" else ""
        say(f"Its times are {_TIMING[timing]}{hint}.")


def _say_active(head: Mapping[str, Any]) -> None:
    """Say that the newest version of a stream was written, if another one is active."""
    newest, active = head["newest"], head["active"]
    if active not in (None, newest):
        say(f"It is {newest}, the newest; {active} is active (--version {active}).")


def listen(client: ServerClient, args: Args) -> None:
    """Render an ad or a narration; write it to the file that is named, else play it."""
    kind: Kind = args.kind
    find(client, kind, args.id)
    player = listening.find_player() if args.play or not args.save else None
    # `aplay` reads nothing else.
    played_as = "wav" if player == "aplay" else "mp3"
    file_format = listening.format_of(args.save) if args.save else played_as
    chosen = {name: getattr(args, name, None) for name in ("profile", "track", "segment", "version")}
    chosen["versions"] = "active" if getattr(args, "active", False) else None
    body = {"format": file_format, **{name: value for name, value in chosen.items() if value}}
    view, sound = listening.render(client, kind.renders, args.id, body, quiet=args.json)
    if args.json:
        print_json(view)
    if args.save:
        write(sound, args.save)
    if player:
        listening.play(player, sound, file_format)


def quiz(client: ServerClient, args: Args) -> None:
    """Write the quiz of a lesson to a file; with `--write` the model writes another one first."""
    chosen = args.format or ("json" if args.json else format_by_ending(args.output, _QUIZ_FORMATS))
    find(client, LESSONS, args.id)
    path, params = "/api/agent-create/session/quiz", {"sessionId": args.id}
    if args.write:
        body = {"count": args.count} if args.count is not None else {}
        turn = client.call("POST", path, json={**params, **body, **_model(args)}).json()
        if not turn["success"]:
            raise Unavailable(turn["message"], remedy="try again, or leave --write out")
        for warning in json.loads(turn["output"])["warnings"]:
            say(warning, wrap=True)
    write(client.call("GET", path, params={**params, "format": chosen}).content, args.output)


def check(client: ServerClient, args: Args) -> int:
    """Check a page before it is published; 1 if a rule is broken."""
    find(client, PAGES, args.id)
    params = {"version": args.version} if args.version else {}
    view = client.get(f"/api/pages/{path_part(args.id)}/check", **params)
    if args.json:
        print_json(view)
    else:
        lines = [
            f"{one['verdict']:4}  {one['rule']}: {one['measured']}{'; ' * bool(one['remedy'])}"
            + in_terminal(one["remedy"]).replace(" ID ", f" {shlex.quote(args.id)} ")
            for one in view["checks"]
        ]
        print_parts([text("\n".join(lines))])
    return int(view["verdict"] == "fail")


def preview(client: ServerClient, args: Args) -> None:
    """Write a page that plays a video."""
    format_by_ending(args.output, {".html": "html"}, "a film is made on the page")
    find(client, VIDEOS, args.id)
    reply = client.call("GET", f"/api/projects/{path_part(args.id)}/preview")
    write(reply.content, args.output)


def import_(client: ServerClient, args: Args) -> int:
    """Import campaigns from a file, and name what was refused, left out, or read otherwise."""
    content = read_bytes(args.output, MAX_IMPORT)
    chosen = {name: getattr(args, name) for name in ("encoding", "mapping", "defaults")}
    params = {"fileName": Path(args.output).name, "allOrNothing": args.all_or_nothing}
    params |= {name: value for name, value in chosen.items() if value is not None}
    report = client.call("POST", "/api/campaigns/import", content=content, params=params).json()
    if args.json:
        print_json(report)
    else:
        count = report["imported"]
        lines = [f"Imported {count} campaign{'s' * (count != 1)}, {report['new']} of them new."]
        lines += [f"Line {row['line']} refused: {row['reason']}" for row in report["refused"][:5]]
        if report["refusedCount"] > len(lines) - 1:
            lines.append(f"{report['refusedCount']} rows were refused.")
        lines += [f"Line {row['line']}: {row['reason']}" for row in report["warnings"][:5]]
        if report["warningCount"] > len(report["warnings"][:5]):
            lines.append(f"{report['warningCount']} cells were left out.")
        lines += report["notes"][:5]
        if report["ignoredColumns"]:
            lines.append(f"Columns that were not imported: {', '.join(report['ignoredColumns'][:10])}")
        if not report["imported"]:
            fields = json.dumps(report["columns"], ensure_ascii=False)
            lines.append(f"Fields by heading: {fields}; change them with --mapping, or set --defaults.")
        print_parts([text("\n".join(lines))])
    return 0 if report["imported"] else 1


def short(client: ServerClient, args: Args) -> int:
    """Make a thing, or refine the one that `--id` names."""
    kind: Kind = args.kind
    args.output = args.preview if kind is VIDEOS else getattr(args, "imported", None)
    if kind is CAMPAIGNS and args.output and (failed := import_(client, args)) | (args.text is None):
        return failed
    if kind is VIDEOS:
        return _short_video(client, args)
    if args.id and args.text is args.file is getattr(args, "answer", None):
        raise UsageError("give the change in quotes, or an answer", f"callsheet {kind.name}")
    if args.named is not None:
        if args.id:
            raise UsageError("--id names an existing ad, --ad-id a new one", "callsheet ad")
        args.id = args.named
        return new(client, args)
    return chat(client, args) if args.id else new(client, args)


def _short_video(client: ServerClient, args: Args) -> int:
    if args.text and args.undo:
        raise UsageError("give a text or --undo, not both", "callsheet scenes")
    if args.starter:
        code = new(client, args)
    elif args.undo:
        code = change_video(client, args)
    else:
        code = chat(client, args) if args.text else show(client, args) * (not args.preview)
    if args.preview:
        preview(client, args)
    return code


def find(client: ServerClient, kind: Kind, name: str) -> Mapping[str, Any]:
    """Return the conversation and streams of a thing; raise `Missing` with the nearest id for none."""
    try:
        if kind is CAMPAIGNS:
            client.get(f"/threads/{path_part(name)}")
            return {"conversationId": name}
        return dict(client.get(f"/api/artefacts/{kind.name}/{path_part(name)}"))
    except Missing as error:
        if "served" in error.message:
            raise
        raise _unknown(client, kind, name) from error


def exists(client: ServerClient, kind: Kind, name: str) -> bool:
    """Return whether there is a thing with this id."""
    try:
        client.get(f"/api/artefacts/{kind.name}/{path_part(name)}")
    except Missing:
        return False
    return True


def _unknown(client: ServerClient, kind: Kind, name: str) -> Missing:
    page = client.get(kind.lists, limit=100)
    near = did_you_mean(name, (one[kind.id_field] for one in page[kind.list_field]))
    rule = f"there is no {'conversation or campaign' if kind is CAMPAIGNS else kind.name} {name!r}{near}"
    own = f" --id {shlex.quote(name)}" if kind in _NAMED else ""
    return Missing(
        rule, remedy=f"list them: {program()} {kind.noun} list; make one: {program()} {kind.noun} new{own} …"
    )


def write(content: bytes, file: str) -> None:
    """Write a file, or to stdout for `-`; raise `Invalid` if it cannot be written."""
    write_pieces([content], file)


def write_pieces(pieces: Iterable[bytes], file: str) -> None:
    """Write a file that comes in pieces, as `write`; nothing is written if they end with an error."""
    if file == _STDIO:
        sys.stdout.buffer.writelines(pieces)
        sys.stdout.buffer.flush()
        return
    path = Path(file).expanduser()
    # Written under another name first, so that a full disk leaves no partial file.
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as target:
            size = sum(target.write(piece) for piece in pieces)
        part.replace(path)
    except OSError as error:
        rule = f"file {file!r} cannot be written: {(error.strerror or str(error)).lower()}"
        raise Invalid(rule, remedy="check the path and the disk") from error
    finally:
        # Also after Ctrl-C.
        part.unlink(missing_ok=True)
    say(f"Wrote {size} bytes to {file}.")


def _call(client: ServerClient, route: KindRoute, args: Args, view: Mapping[str, Any], **request: Any) -> Any:
    fields = {
        "id": args.id or "",
        "thread": view.get("conversationId") or "",
        "stream": getattr(args, "stream", "") or "",
        "version": getattr(args, "version", "") or "",
    }
    used = {name: value for name, value in fields.items() if f"{{{name}}}" in route.path}
    path = route.path.format(**{name: path_part(value) for name, value in used.items()})
    if route.body is not None:
        request["json"] = {name: str(value).format(**fields) for name, value in route.body.items()}
    if request.get("params") and "?" in path:
        # Parameters beside a query would replace it.
        path, _, query = path.partition("?")
        request["params"] |= dict([query.split("=", 1)]) | {"sessionId": args.id}
    return client.call(route.method, path, **request)


def _stream_path(kind: Kind, name: str, stream: str) -> str:
    return f"/api/artefacts/{kind.name}/{path_part(name)}/{path_part(stream)}"


def _id(kind: Kind, reply: Mapping[str, Any]) -> str:
    names = {ADS: "adId", PAGES: "pageId", LESSONS: "sessionId", VIDEOS: "projectId"}
    return str(reply[next((field for one, field in names.items() if one is kind), "conversationId")])


def _command(kind: Kind, verb: str, name: str, args: Args | None = None) -> str:
    """Return the shell command, on the same data."""
    data = getattr(args, "data_dir", None)
    option = f" --data-dir {shlex.quote(str(data))}" if data else ""
    return f"{program()} {kind.noun} {verb}{option} {shlex.quote(name)}"


def _fields(args: Args) -> dict[str, Any]:
    """Return the options that are fields of the request."""
    kind: Kind = args.kind
    names = [settings.get("dest") or flag[2:] for flag, settings in kind.options.items()]
    chosen = {name: getattr(args, name, None) for name in names}
    return {name: value for name, value in chosen.items() if value is not None} | _model(args)


def _model(args: Args) -> dict[str, Any]:
    chosen = {"provider": getattr(args, "provider", None), "model": getattr(args, "model", None)}
    return {name: value for name, value in chosen.items() if value}


def _words(args: Args, name: str) -> str:
    file = None if args.kind is LESSONS else args.file
    if args.text is not None and file is not None:
        raise UsageError(f"give {name} in quotes or --file, not both", f"callsheet {args.kind.noun}")
    if args.text is None and file is None:
        if args.file or getattr(args, "starter", None):
            return ""
        raise UsageError(
            f'give {name} in quotes, or --file with a path, or "-" for stdin', f"callsheet {args.kind.noun}"
        )
    return read_text(args.text, file, name)


def _brief(words: str, file: str | None) -> tuple[Any, str | None, dict[str, Any]]:
    """Return the brief, an object if it is JSON, with the id and the fields of a saved request's body."""
    if not (file or "").endswith(".json") and not words.lstrip().startswith("{"):
        return words, None, {}
    try:
        value = json.loads(words, object_pairs_hook=_once)
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError as error:
        name = f"file {file!r}" if file else "the brief"
        raise Invalid(
            f"{name} is not JSON: {error}",
            remedy='write {"clientDescription": "who the ad is for and what it should say"}',
        ) from error
    if not isinstance(value, dict) or not isinstance(value.get("brief"), dict):
        return value, None, {}
    saved = {name: value[name] for name in _REQUEST_FIELDS if value.get(name) is not None}
    return value["brief"], value.get("adId"), saved


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has {next(name for name in names if names.count(name) > 1)!r} twice")
    return fields


def _upload(client: ServerClient, session: str, args: Args) -> tuple[str, str]:
    """Add a file to a lesson; return the lesson's id and the message about it."""
    params = {"fileName": Path(args.file).name} | ({"sessionId": session} if session else {})
    path = "/api/agent-create/session/source/files"
    reply = client.call("POST", path, content=read_bytes(args.file), params=params)
    words = read_text(args.text, None, "the message") if args.text is not None else ""
    return reply.headers.get("x-session-id") or session, f"{words}\n\n{UPLOADED}".strip()


def _cell(name: str, value: Any) -> Any:
    if name.endswith("At"):
        return age(value)
    return f"{value:g} s" if name.endswith("Seconds") and value is not None else value


def kind_of(noun: str) -> Kind:
    """Return the kind whose commands or short command have this name."""
    return next(kind for kind in KINDS if noun in {kind.noun, kind.name})
