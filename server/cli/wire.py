"""Commands about threads, runs, questions and served graphs, of any workflow: the LangGraph wire."""

import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from callsheet.server.cli import answers, operator_commands, rendering
from callsheet.server.cli.artefacts import exists, write, write_pieces
from callsheet.server.cli.client import ServerClient, path_part
from callsheet.server.cli.kinds import BY_GRAPH, CAMPAIGNS
from callsheet.server.cli.output import (
    NextCommand,
    age,
    facts,
    first_ones,
    print_json,
    print_parts,
    print_table,
    say,
    show_progress,
    text,
)
from callsheet.server.cli.parsing import JSON_LINES, Args, UsageError, did_you_mean, format_by_ending
from callsheet.server.cli.text_input import open_bytes, read_bytes, read_text
from callsheet.server.cli.turns import (
    OPEN,
    Interruption,
    StoppedError,
    as_step,
    content_text,
    last_message,
)
from callsheet.server.settings.installation import program
from callsheet.state import errors, questions
from callsheet.state.entered import entered_text
from callsheet.state.errors import CallsheetError, Conflict, Invalid, Missing

_MOST_RECENT: Final = 500
"""Most threads that the server lists at once."""
_MAX_FILE: Final = 1_000_000_000
_CANCELLED: Final = "UserInterrupt"
"""Kind of the error of a cancelled run."""
_EXAMPLES: Final = {"integer": 0, "number": 0.0, "boolean": False, "array": [], "object": {}}
"""Values of an example by the type of their schema."""
_LEFT_OUT: Final = b'{"type":"left-out",'
_SHORT_STATUS: Final = {"interrupted": "asks"}
"""Words for a status where they say more than the wire's."""


def list_threads(client: ServerClient, args: Args) -> None:
    """List threads, last changed first, with their titles."""
    threads = _recent(client, args, "")
    if args.json:
        print_json(threads)
        return
    _print_recent(threads, [one["thread"] for one in threads], "There are no threads.")


def search(client: ServerClient, args: Args) -> None:
    """List the threads in which all words occur, last changed first."""
    threads = _recent(client, args, " ".join(args.words))
    if args.json:
        print_json(threads)
        return
    ids = [(one["artefact"] or {}).get("id") or one["thread"] for one in threads]
    _print_recent(threads, ids, f"Nothing has these words; see all: {program()} threads list")


def _recent(client: ServerClient, args: Args, words: str) -> list[dict[str, Any]]:
    if not 1 <= args.limit <= _MOST_RECENT:
        raise Invalid(
            f"--limit is {args.limit}, and must be 1 to {_MOST_RECENT}",
            remedy=f"search for what you want: {program()} search WORDS",
        )
    # One more than asked for shows that there are more.
    limit = min(args.limit + 1, _MOST_RECENT)
    return first_ones(client.get("/api/recent", q=words, limit=limit), args.limit)


def _print_recent(threads: Sequence[Mapping[str, Any]], ids: Sequence[str], empty: str) -> None:
    rows = [
        (name, _kind_name(one["workflow"]), _status(one["status"]), age(one["updatedAt"]), one["title"])
        for name, one in zip(ids, threads, strict=True)
    ]
    print_table(("Id", "About", "Status", "Changed", "Title"), rows, empty)


def rename_thread(client: ServerClient, args: Args) -> None:
    """Give a thread a title of one's own; an empty one takes it back."""
    _thread(client, args.id)
    client.call("PATCH", f"/threads/{_path_id(args.id)}", json={"metadata": {"title": args.title.strip()}})
    say(f"Renamed {args.id}.")


def show_thread(client: ServerClient, args: Args) -> None:
    """Show a thread: its standing, and what was said."""
    thread = _thread(client, args.id)
    if args.json:
        print_json(thread)
        return
    values = thread.get("values") or {}
    messages = values.get("messages") if isinstance(values, Mapping) else None
    waiting = answers.pending(client, args.id)
    print_parts(
        [
            facts(
                {
                    "Thread": text(thread["thread_id"], "cyan"),
                    "Graph": thread["metadata"].get("graph_id"),
                    "Status": _status(thread["status"]),
                    "Changed": age(thread["updated_at"]),
                    "Asks": "" if waiting is None else answers.question_line(waiting),
                }
            ),
            *([] if waiting is None else rendering.answer_parts(waiting)),
            *_dialogue(messages if isinstance(messages, list) else []),
        ]
    )


def _dialogue(messages: list[Mapping[str, Any]]) -> Iterator[Any]:
    for message in messages:
        words = entered_text(message) or content_text(message.get("content"))
        if message.get("type") in {"human", "ai"} and words:
            who = "You" if message["type"] == "human" else "Model"
            yield Text.assemble((f"{who}  ", "bold"), text(words))


def export_thread(client: ServerClient, args: Args) -> None:
    """Write a thread and its artefacts to a file."""
    format_by_ending(args.output, JSON_LINES)
    write(client.call("GET", f"/api/threads/{_path_id(args.id)}/export").content, args.output)


def import_thread(client: ServerClient, args: Args) -> None:
    """Create a thread from a file; nothing that exists is overwritten."""
    content = sys.stdin.buffer.read() if args.output == "-" else read_bytes(args.output, _MAX_FILE)
    params = {name: value for name, value in (("as", args.as_id), ("trust", args.trust)) if value}
    imported = client.call("POST", "/api/threads/import", content=content, params=params).json()
    if args.json:
        print_json(imported)
    else:
        print(imported["threadId"])  # noqa: T201 -- what is asked for


def export_data(client: ServerClient, args: Args) -> int:
    """Write everything that the owner has to a file; 1 if something had to be left out."""
    left_out: list[Any] = []
    write_pieces(
        _noting_left_out(client.download("/api/data/export", **_owner_of(args)), left_out), args.output
    )
    for each in left_out:
        say(f"Left out {_subject(each)}: {each['reason']}.")
    return int(bool(left_out))


def _subject(left_out: Mapping[str, str]) -> str:
    return "all campaigns" if left_out.get("kind") == "campaign" else f"thread {left_out['thread']}"


def _owner_of(args: Args) -> dict[str, str]:
    return {"owner": args.owner} if args.url and args.owner else {}


def _noting_left_out(pieces: Iterable[bytes], left_out: list[Any]) -> Iterator[bytes]:
    """Yield the pieces, and append what their lines say that was left out."""
    line = b""
    for piece in pieces:
        yield piece
        *lines, line = (line + piece).split(b"\n")
        left_out += [json.loads(one)["data"] for one in lines if one.startswith(_LEFT_OUT)]


def import_data(client: ServerClient, args: Args) -> None:
    """Import an owner's file; nothing that exists is overwritten."""
    with open_bytes(args.output) as file:
        params = _owner_of(args) | ({"trust": "true"} if args.trust else {})
        done = client.call("POST", "/api/data/import", content=file, params=params).json()
    if args.json:
        print_json(done)
        return
    for each in done["leftOut"]:
        say(f"Not imported: {_subject(each)}: {each['reason']}.")
    rows = [(kind, count) for kind, count in done["imported"].items() if count]
    print_table(("Imported", "Number"), rows, "The file has no data.")


def delete_thread(client: ServerClient, args: Args) -> None:
    """Delete a thread with all its states; its ads, pages and videos stay, a lesson goes with it."""
    _thread(client, args.id)
    if not args.yes and not answers.confirm(f"Delete thread {args.id!r} for good?"):
        raise Conflict("nothing was deleted", remedy="answer yes, or use --yes")
    client.call("DELETE", f"/threads/{_path_id(args.id)}")
    say(f"Deleted {args.id}.")


def list_runs(client: ServerClient, args: Args) -> None:
    """List the runs that have not ended, or all runs of a thread, newest first."""
    if args.all_owners:
        operator_commands.list_all_runs(client, args)
        return
    if args.status or args.since:
        raise UsageError("--status and --since need --all-owners", "callsheet runs list")
    runs = _runs_of(client, args.id, args.limit + 1) if args.id else _open_runs(client)
    runs = first_ones(runs, args.limit)
    if args.json:
        print_json(runs)
        return
    rows = [(run["run_id"], run["status"], age(run["created_at"]), run["thread_id"]) for run in runs]
    empty = "The thread has no runs." if args.id else "No run is pending or running."
    print_table(("Run", "Status", "Made", "Thread"), rows, empty)


def show_run(client: ServerClient, args: Args) -> None:
    """Show a run's record as JSON, with its request and its error."""
    print_json(_run(client, args))


def cancel_run(client: ServerClient, args: Args) -> None:
    """Cancel a pending or running run, whichever process executes it."""
    run = _run(client, args)
    if run["status"] not in OPEN:
        raise Conflict(
            f"run {args.run_id!r} has ended already", remedy=f"see it: {program()} runs show {args.run_id}"
        )
    action = "rollback" if args.rollback else "interrupt"
    path = f"/threads/{_path_id(run['thread_id'])}/runs/{_path_id(args.run_id)}/cancel"
    client.call("POST", path, params={"action": action})
    # A running one is cancelled by the process that executes it.
    say(f"{'Cancelled' if run['status'] == 'pending' else 'Cancelling'} {args.run_id}.")


def list_questions(client: ServerClient, args: Args) -> None:
    """List the questions that wait for an answer, newest first."""
    select = ["thread_id", "metadata", "updated_at", "interrupts"]
    query = {"status": "interrupted", "limit": args.limit + 1, "select": select}
    threads = first_ones(client.call("POST", "/threads/search", json=query).json(), args.limit)
    if args.json:
        print_json(threads)
        return
    rows = [
        (one["thread_id"], _about(one), age(one["updated_at"]), answers.question_line(question["value"]))
        for one in threads
        for many in one["interrupts"].values()
        for question in many
    ]
    print_table(("Thread", "About", "Since", "Question"), rows, "No question waits for an answer.")


def answer_question(client: ServerClient, args: Args) -> int:
    """Answer the question that a thread waits with."""
    args.graph = _thread(client, args.id)["metadata"].get("graph_id")
    value = answers.pending(client, args.id)
    if value is None:
        raise Conflict("no question waits for an answer on this thread", remedy="send a message instead")
    if args.answer is None:
        if not sys.stdin.isatty():
            print_parts(rendering.question_parts(value), stderr=True)
            raise Invalid(
                f"the question is: {answers.question_line(value)}",
                remedy=f"give the answer, too, such as {shlex.quote(answers.example_of(value))}",
            )
        args.answer = answers.ask(value)
    args.text, args.input, args.kind = None, None, BY_GRAPH.get(args.graph)
    return run(client, args)


def run(client: ServerClient, args: Args) -> int:
    """Run a graph and answer its questions."""
    thread = _require_graph(client, args)
    chosen = {"context": _context(args)}
    body = chosen | _body(client, args, thread)
    thread = thread or _new_thread(client, args.graph)
    try:
        values, question = _turn(client, thread, args, body)
        while question is not None and (answer := _next_answer(args, values, question)) is not None:
            body = chosen | {"command": {"resume": parse_answer(answer, question)}}
            values, question = _turn(client, thread, args, body)
    except StoppedError:
        say(f"Stopped: the run is cancelled. See what is kept: {program()} threads show {thread}")
        raise
    _show_values(client, args, thread, values, question)
    return 0


def _next_answer(args: Args, values: Any, question: Any) -> str | None:
    """Return the answer of `--answer`, once, or that of a person; None if there is neither."""
    answer, args.answer = args.answer, None
    if answer is not None:
        return str(answer)
    if not sys.stdin.isatty() or args.json:
        return None
    if message := last_message(values):
        print_parts([text(message)], stderr=True)
    return answers.ask(question)


def _turn(client: ServerClient, thread: str, args: Args, body: Mapping[str, Any]) -> tuple[Any, Any]:
    """Execute a run; return the values of the thread after it, and the question that waits."""
    request = {"assistant_id": args.graph, "stream_mode": ["custom"], **body}
    with show_progress(quiet=args.json) as show, Interruption(client) as stop:
        stop.thread = thread
        for name, data in client.events(
            "POST", f"/threads/{thread}/runs/stream", stop.on_start, json=request
        ):
            if name == "error":
                stop.check(name)
                raise _failure(client, thread, args.graph, data)
            if step := as_step(name, data):
                show(step)
        stop.check("error")
    state = client.get(f"/threads/{thread}")
    return state["values"], answers.pending(client, thread)


def _failure(client: ServerClient, thread: str, graph: str, data: Any) -> CallsheetError:
    """Return the error of a run that failed; one of the graph's own code has its kind and its node."""
    fields = data if isinstance(data, Mapping) else {}
    kind, message = str(fields.get("error") or ""), str(fields.get("message") or "")
    if kind == _CANCELLED or isinstance(getattr(errors, kind, None), type):
        return CallsheetError(message)
    tasks = client.get(f"/threads/{thread}/state")["tasks"]
    nodes = [f"node {task['name']!r} of " for task in tasks if task["error"]][:1]
    rule = f"{''.join(nodes)}graph {graph!r} failed: {': '.join(filter(None, (kind, message)))}"
    return CallsheetError(rule, remedy="correct the graph; the trace is in the server's log")


def _require_graph(client: ServerClient, args: Args) -> str:
    """Return the quoted id of the thread to run on, or nothing if none is named."""
    served = [
        one["graph_id"] for one in client.call("POST", "/assistants/search", json={"limit": 1000}).json()
    ]
    if args.graph not in served:
        raise Missing(
            f"no graph {args.graph!r} is served{did_you_mean(args.graph, served)}",
            remedy=f"use one of: {', '.join(sorted({*served}))}",
        )
    if not args.id:
        return ""
    graph = _thread(client, args.id)["metadata"].get("graph_id")
    if graph != args.graph:
        raise Conflict(
            f"thread {args.id!r} runs {graph!r}, not {args.graph!r}",
            remedy=f"use: {program()} run {graph} --id {args.id}",
        )
    return _path_id(args.id)


def _new_thread(client: ServerClient, graph: str) -> str:
    return str(client.call("POST", "/threads", json={"graph_id": graph}).json()["thread_id"])


def _body(client: ServerClient, args: Args, thread: str) -> dict[str, Any]:
    has_input = bool(args.text or args.input is not None)
    value = answers.pending(client, thread) if thread and args.answer is not None else None
    if value is not None:
        if has_input:
            rule = f"a question waits already: {answers.question_line(value)}"
            raise Conflict(rule, remedy="give --answer without a message")
        answer, args.answer = args.answer, None
        return {"command": {"resume": parse_answer(answer, value)}}
    if args.answer is not None and not has_input:
        raise Conflict(
            "no question waits for an answer on this thread", remedy="send a message first, or too"
        )
    graph_input = _json_object(args.input, "--input")
    if args.text:
        _require_messages(client, args.graph)
        words = read_text(args.text, None, "the message")
        graph_input["messages"] = [{"role": "user", "content": words}]
    if not has_input:
        raise Invalid("the run has no input", remedy="give a message, or --input with a JSON object")
    return {"input": graph_input}


def parse_answer(words: str, question: Any) -> Any:
    """Return an answer as the graph expects it: yes or no to an approval, JSON, else the text."""
    word = words.strip().casefold()
    approval = isinstance(question, Mapping) and "action_requests" in question
    if approval and word in {"y", "yes", "n", "no"}:
        return {"decisions": [{"type": "approve" if word.startswith("y") else "reject"}]}
    schema = questions.response_schema(question) or {}
    try:
        answer = json.loads(words)
    except ValueError:
        return words
    return words if schema.get("type") == "string" and not isinstance(answer, str) else answer


def _require_messages(client: ServerClient, graph: str) -> None:
    """Raise `Invalid` for a message to a graph whose input has fields, but no messages."""
    schema = client.get(f"/assistants/{_path_id(graph)}/schemas").get("input_schema") or {}
    fields = [*schema.get("properties", ())]
    if not fields or "messages" in fields:
        return
    properties = schema["properties"]
    values = {
        name: _EXAMPLES.get(properties[name].get("type"), "…") for name in schema.get("required") or fields
    }
    example = json.dumps(values, ensure_ascii=False)
    raise Invalid(
        f"graph {graph!r} takes no message; its input has {', '.join(fields)}",
        remedy=f"give the input as JSON instead: --input '{example}'",
    )


def _json_object(words: str | None, option: str) -> dict[str, Any]:
    if words is None:
        return {}
    remedy = f"give an object: {option} '{{\"n\": 1}}'"
    try:
        value = json.loads(words)
    except ValueError as error:
        raise Invalid(f"{option} is not JSON: {error}", remedy=remedy) from error
    if not isinstance(value, dict):
        raise Invalid(f"{option} is not a JSON object", remedy=remedy)
    return value


def _show_values(client: ServerClient, args: Args, thread: str, values: Any, question: Any) -> None:
    message = last_message(values)
    if args.json or not (message or question):
        print_json({"thread": thread, "values": values, "question": question})
        return
    parts: list[Any] = [text(message)] if message else []
    created = values.get("created", ()) if isinstance(values, Mapping) else ()
    if created:
        parts.append(text("\n".join(f"Made {draft['stream']} {draft['versionId']}" for draft in created)))
    data = f" --data-dir {shlex.quote(str(args.data_dir))}" if args.data_dir else ""
    data += f" --provider {shlex.quote(args.provider)}" if args.provider else ""
    words, name = _chat_words(client, args, thread, values)
    command, last = f"{program()} {words}{data} {name}", '"…"'
    if question is not None:
        parts += rendering.question_parts(question)
        command = f"{program()} questions answer{data} {thread}"
        last = shlex.quote(answers.example_of(question))
    if isinstance(values, Mapping) and values.get("provider"):
        parts.append(rendering.model_line(values["provider"], values.get("provider_reason") or ""))
    print_parts([*parts, NextCommand(("Answer" if question is not None else "Go on", f"{command} {last}"))])


def _chat_words(client: ServerClient, args: Args, thread: str, values: Any) -> tuple[str, str]:
    """Return the command that goes on with the thread, and its last words.

    It is `chat` after an answer to a question about something that has been made.
    """
    kind = getattr(args, "kind", None)
    fields = values if isinstance(values, Mapping) else {}
    name = str(fields.get(kind.state_field) or args.id) if kind else ""
    if kind is None or not (kind is CAMPAIGNS or exists(client, kind, name)):
        return f"run {shlex.quote(args.graph)}", f"--id {thread}"
    return f"{kind.noun} chat", shlex.quote(name)


def _context(args: Args) -> dict[str, Any]:
    chosen = {"provider": getattr(args, "provider", None), "model": getattr(args, "model", None)}
    own = _json_object(getattr(args, "context", None), "--context")
    return own | {name: value for name, value in chosen.items() if value}


def _thread(client: ServerClient, name: str) -> dict[str, Any]:
    try:
        return dict(client.get(f"/threads/{_path_id(name)}"))
    except Missing as error:
        threads = client.call("POST", "/threads/search", json={"limit": 100, "select": ["thread_id"]}).json()
        near = did_you_mean(name, (one["thread_id"] for one in threads))
        raise Missing(
            f"there is no thread {name!r}{near}", remedy=f"list them: {program()} threads list"
        ) from error


def _open_runs(client: ServerClient) -> list[dict[str, Any]]:
    query = {"status": "busy", "limit": 1000, "select": ["thread_id"]}
    busy = client.call("POST", "/threads/search", json=query).json()
    runs = [run for one in busy for run in _runs_of(client, one["thread_id"], 1000) if run["status"] in OPEN]
    return sorted(runs, key=lambda run: str(run["created_at"]), reverse=True)


def _runs_of(client: ServerClient, thread: str, limit: int) -> list[dict[str, Any]]:
    _thread(client, thread)
    return list(client.get(f"/threads/{_path_id(thread)}/runs", limit=min(limit, 1000)))


def _run(client: ServerClient, args: Args) -> dict[str, Any]:
    if args.id:
        return dict(client.get(f"/threads/{_path_id(args.id)}/runs/{_path_id(args.run_id)}"))
    matches = [run for run in _open_runs(client) if run["run_id"] == args.run_id]
    if not matches:
        raise Missing(
            f"no run {args.run_id!r} is pending or running",
            remedy="check the id, or name the run's thread with --id if it has ended",
        )
    return matches[0]


def _about(thread: Mapping[str, Any]) -> str:
    return _kind_name(str((thread.get("metadata") or {}).get("graph_id") or ""))


def _kind_name(graph: str) -> str:
    return BY_GRAPH[graph].name if graph in BY_GRAPH else graph


def _status(status: str) -> str:
    return _SHORT_STATUS.get(status, status)


def _path_id(name: str) -> str:
    return path_part(name)
