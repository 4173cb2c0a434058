"""Redis URLs: valid and invalid ones, and passwords that are never shown."""

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.state.errors import Invalid
from callsheet.storage.redis.address import parse, redact


@pytest.mark.parametrize(
    ("url", "plain", "cluster"),
    [
        ("redis://localhost", "redis://localhost", False),
        ("redis://localhost:6380/3", "redis://localhost:6380/3", False),
        ("rediss://me:pw@host:6380?db=2", "rediss://me:pw@host:6380?db=2", False),
        ("redis://[::1]:6379/", "redis://[::1]:6379/", False),
        ("unix:///run/valkey.sock", "unix:///run/valkey.sock", False),
        ("unix:///run/valkey.sock?db=4", "unix:///run/valkey.sock?db=4", False),
        ("unix://:pw@/run/valkey.sock", "unix://:pw@/run/valkey.sock", False),
        ("redis+cluster://host:7000", "redis://host:7000", True),
        ("rediss+cluster://host:7000/0", "rediss://host:7000/0", True),
        ("redis://host:7000?cluster=true", "redis://host:7000", True),
        ("rediss+cluster://me:pw@a:7000,b:7001,c/0", "rediss://me:pw@a:7000/0", True),
        ("redis://host:7000?cluster=false", "redis://host:7000", False),
    ],
)
def test_a_valid_url_names_a_server_or_a_cluster(url: str, plain: str, *, cluster: bool) -> None:
    address = parse(url)
    assert (address.url, address.cluster, address.max_connections) == (plain, cluster, 64)


def test_a_cluster_may_be_named_by_several_nodes() -> None:
    assert parse("redis+cluster://me:pw@a:7000,b:7001,c").other_nodes == (("b", 7001), ("c", 6379))


@pytest.mark.parametrize(
    ("url", "docket"),
    [
        ("redis://me:pw@host/3", "redis://me:pw@host/3?x=1"),
        ("unix:///run/s?db=4", "unix:///run/s?db=4&x=1"),
        ("redis://host:7000?cluster=true", "redis+cluster://node:7005?x=1"),
        ("rediss+cluster://me:pw@a:7000,b:7001", "rediss+cluster://node:7005?x=1"),
    ],
)
def test_docket_gets_a_url_with_its_options_and_a_node_of_a_cluster(url: str, docket: str) -> None:
    address = parse(url)
    assert address.docket_url({"x": 1}, ("node", 7005) if address.cluster else None) == docket


def test_docket_gets_the_address_of_a_node_in_brackets() -> None:
    url = parse("redis+cluster://a").docket_url({}, ("::1", 7000))
    assert url == "redis+cluster://[::1]:7000"


def test_the_number_of_connections_can_be_chosen() -> None:
    assert parse("redis://host?max_connections=7").max_connections == 7


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("", "must begin with one of redis://, rediss://, unix://"),
        ("localhost:6379", "must begin with"),
        ("http://localhost", "must begin with"),
        ("valkey://localhost", "must begin with"),
        ("redis://", "names no host"),
        ("redis:///3", "names no host"),
        ("redis://host:port", "has a port that is not a number up to 65535"),
        ("redis://host:70000", "has a port that is not a number up to 65535"),
        ("redis://[::1", "is not a valid URL"),
        ("redis://host/zero", "names the database 'zero', which must be a number"),
        ("redis://host?db=-1", "names the database '-1', which must be a number"),
        ("redis://host/1/2", "names the database '1/2', which must be a number"),
        ("unix:///path?db=x", "names the database 'x', which must be a number"),
        ("unix://", "must name the path of a socket"),
        ("unix:///path?cluster=yes", "cannot be a cluster"),
        ("redis+cluster://host/1", "names the database 1, and a cluster has only 0"),
        ("redis://host?decode_responses=true", "has unknown options ['decode_responses']"),
        ("redis://host?max_connections=0", "has max_connections='0', which must be a number from 1"),
        ("redis://host?max_connections=many", "has max_connections='many'"),
        ("redis://:pass/word@host", "write / ? # as %2F %3F %23"),
        ("redis://:pass?word@host", "write / ? # as %2F %3F %23"),
        ("redis://:1#word@host", "write / ? # as %2F %3F %23"),
        ("redis+cluster://a:7000,b:port", "has a port that is not a number up to 65535"),
        ("redis+cluster://a:7000,:7001", "has an empty host beside others"),
        ("redis+cluster://,a:7000", "names no host"),
        ("redis://a:7000,b:7001", "names several hosts, which only a cluster has"),
        ("redis://host?cluster=maybe", "has cluster='maybe', which must be true or false"),
    ],
)
def test_an_invalid_url_is_refused_with_the_rule_it_breaks(url: str, rule: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse(url)
    assert rule in refused.value.message
    assert "redis://[user:password@]host:port/db" in refused.value.remedy


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("redis://me:hunter2@host:6379/0", "redis://***@host:6379/0"),
        ("redis://:hunter2@host", "redis://***@host"),
        ("unix://:hunter2@/run/s", "unix://***@/run/s"),
        ("redis://:hun/ter@2@host", "redis://***@host"),
        ("redis:hunter2@host", "redis:***@host"),
        ("hunter2@host", "***@host"),
        ("redis://host:6379/0", "redis://host:6379/0"),
    ],
)
def test_user_and_password_are_masked(url: str, masked: str) -> None:
    assert redact(url) == masked


@given(
    password=st.text("abcXYZ019:/?#[]%@&= \n", min_size=4).map(lambda text: f"pw{text}pw"),
    form=st.sampled_from(
        ["redis://me:{}@host:port", "redis://:{}@host/x", "what://:{}@host", "{}@", "redis://{}@host/0/1"]
    ),
)
def test_no_refusal_of_a_url_shows_its_password(password: str, form: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse(form.format(password))
    printed = "".join(traceback.format_exception(refused.value)) + refused.value.remedy
    assert password not in printed
    assert repr(password)[1:-1] not in printed


def test_an_address_does_not_show_its_password() -> None:
    assert "hunter2" not in repr(parse("redis://me:hunter2@host"))
