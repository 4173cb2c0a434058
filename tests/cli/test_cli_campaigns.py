"""Campaigns on the command line: imports with their options, and ids that a command could not name."""

import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand
from tests.doubles.command import assert_refused

CSV = "Werbemittel;company;capture_date\nFrühstück;Nordlys;2026-01-01\n"


def write(content: bytes, name: str = "own.csv") -> str:
    Path(name).write_bytes(content)
    return name


@pytest.mark.parametrize("command", ["campaigns import own.csv", "ask --import own.csv"])
def test_an_import_takes_encoding_mapping_and_defaults(run_command: RunCommand, command: str) -> None:
    write(CSV.encode("cp1252"))
    options = ["--encoding", "cp1252", "--mapping", json.dumps({"Werbemittel": "campaign_text"})]
    result = run_command(*command.split(), *options, "--defaults", '{"channel": "email"}')
    assert (result.code, "Imported 1 campaign," in result.out) == (0, True), result
    [campaign] = json.loads(run_command("campaigns", "list", "--json").out)["campaigns"]
    assert (campaign["campaign_text"], campaign["channel"]) == ("Frühstück", "email")


def test_an_import_of_no_row_shows_the_fields_that_the_headings_gave(run_command: RunCommand) -> None:
    write(CSV.encode())
    result = run_command("campaigns", "import", "own.csv")
    assert result.code == 1
    assert "channel is missing" in result.out
    words = " ".join(result.out.split())
    assert '"company": "company"' in words
    assert "--mapping" in words


NARROW = "only the urgent ones"


def test_an_answer_says_once_that_the_campaigns_are_invented(run_command: RunCommand) -> None:
    """E29: in the first answer of a conversation, until there are campaigns of one's own."""
    note = "sample library of invented campaigns"
    first = run_command("ask", "how many email campaigns are there")
    assert " ".join(first.out.split()).count(note) == 1
    reply = json.loads(run_command("ask", "how many email campaigns are there", "--json").out)
    assert (len(reply["notes"]), note in reply["notes"][0]) == (1, True)
    second = run_command("campaigns", "chat", reply["conversationId"], NARROW, "--json")
    assert json.loads(second.out)["notes"] == []
    [listed] = json.loads(run_command("campaigns", "list", "--json").out)["notes"]
    assert note in listed
    write(CSV.encode())
    assert run_command("campaigns", "import", "own.csv", "--defaults", '{"channel": "email"}').code == 0
    reply = json.loads(run_command("ask", "how many email campaigns are there", "--json").out)
    assert (reply["total"], reply["notes"]) == (1, [])


def test_narrowing_is_offered_only_where_there_is_something_to_narrow(run_command: RunCommand) -> None:
    """E-R6, X13: after a declined first question or no match it had led to nothing."""
    assert NARROW in run_command("ask", "how many email campaigns are there").out
    for question in ("please do the dishes", 'find campaigns mentioning "zebra crossing"'):
        shown = run_command("ask", question)
        assert NARROW not in shown.out + shown.err
        assert "what is the most common channel" in shown.out


def test_an_import_refuses_an_id_that_no_address_can_name(run_command: RunCommand) -> None:
    write(b"id,company,channel,capture_date\nexport,Nordlys,email,2026-01-01\n")
    result = run_command("campaigns", "import", "own.csv")
    assert result.code == 1
    assert "id is 'export'" in result.out


def test_a_deletion_of_a_campaign_that_does_not_exist_asks_nothing(run_command: RunCommand) -> None:
    assert_refused(run_command("campaigns", "delete", "c-9999"), "campaign 'c-9999'")


def test_the_question_before_a_deletion_names_a_campaign(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    result = run_command("campaigns", "delete", "c-0074")
    assert "Delete campaign 'c-0074' for good?" in result.err


def test_the_help_of_groups_names_all_their_commands(run_command: RunCommand) -> None:
    words = " ".join(run_command("--help").out.split())
    assert "Campaigns: new, chat, list, show, export, import, delete." in words
    assert "export, undo, redo, preview, delete." in words
