"""The files in `deploy/`: valid, and true to the settings, routes and times of the server."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]  # ships no types

from callsheet.server.settings.settings import Settings, variable_name
from tests.doubles.needs import need

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
LAST_WORDS_S: Final = 10
"""Seconds after the delay and twice the grace, as docs/operations.md says."""


def text(name: str) -> str:
    return (DEPLOY / name).read_text()


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text(name)))


def seconds_to_stop(env: dict[str, str]) -> float:
    """The time that a process with this environment may take to stop."""
    names = ("stop_delay_s", "stop_grace_s")
    delay, grace = [
        float(env.get(variable_name(name), Settings.model_fields[name].default)) for name in names
    ]
    return delay + 2 * grace + LAST_WORDS_S


def test_every_setting_in_the_files_exists() -> None:
    known = {variable_name(name) for name in Settings.model_fields}
    for file in DEPLOY.iterdir():
        used = set(re.findall(r"CALLSHEET_[A-Z_]+[A-Z]", file.read_text()))
        assert used <= known, (file.name, used - known)


def test_the_image_has_no_root_no_unpinned_package_and_a_health_check() -> None:
    lines = text("Dockerfile").replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    final = steps[max(number for number, step in enumerate(steps) if step[0] == "FROM") :]
    names = [step[0] for step in final]
    assert {"USER", "HEALTHCHECK", "ENTRYPOINT", "CMD", "STOPSIGNAL"} <= set(names)
    assert names.index("USER") < names.index("ENTRYPOINT")
    [user] = [step[1] for step in final if step[0] == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "Kubernetes checks a number, not a name"
    for name, rest in steps:
        if name == "RUN" and "pip install" in rest:
            for command in rest.split("&&"):
                is_locked = "--require-hashes" in command or command.strip().endswith(
                    "--no-build-isolation ."
                )
                assert is_locked or "pip install" not in command, command
        if name == "FROM":
            assert re.search(r":[\w.-]*\d", rest), "a tag with a version"


def test_the_image_has_every_file_that_its_steps_need() -> None:
    ignored = text("Dockerfile.dockerignore").split()
    root = DEPLOY.parent
    needed = (
        "requirements.txt",
        "requirements-node.txt",
        "pyproject.toml",
        "build_wheel.py",
        "server/console/build.py",
    )
    for name in needed:
        assert (root / name).exists()
        assert not {name, name.split("/")[0]} & {*ignored}, name


def test_compose_has_two_servers_a_worker_and_a_valkey_that_keeps_its_data() -> None:
    [compose] = documents("compose.yaml")
    services = compose["services"]
    assert set(services) == {"server-1", "server-2", "worker", "valkey", "proxy"}
    command = services["valkey"]["command"]
    assert command[command.index("--appendonly") + 1] == "yes"
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
    for volume in services["valkey"]["volumes"]:
        assert volume.split(":")[0] in compose["volumes"]
    for name in ("server-1", "server-2", "worker"):
        service = services[name]
        assert service["read_only"]
        assert service["tmpfs"] == ["/tmp"]
        assert service["cap_drop"] == ["ALL"]
        assert service["depends_on"]["valkey"]["condition"] == "service_healthy"
        limit = float(service["stop_grace_period"].removesuffix("s"))
        assert limit >= seconds_to_stop(service["environment"])
    assert services["worker"]["command"] == ["worker"]
    health = text("Dockerfile")
    assert f"127.0.0.1:{services['worker']['environment']['CALLSHEET_WORKER_PORT']}/ready" in health


def test_kubernetes_probes_stops_and_confines_every_pod() -> None:
    manifests = documents("kubernetes.yaml")
    deployments = [one for one in manifests if one["kind"] == "Deployment"]
    assert {one["metadata"]["labels"]["part"] for one in deployments} == {"server", "worker"}
    for one in deployments:
        pod = one["spec"]["template"]["spec"]
        assert (
            one["spec"]["selector"]["matchLabels"].items()
            <= one["spec"]["template"]["metadata"]["labels"].items()
        )
        assert pod["securityContext"]["runAsNonRoot"]
        [container] = pod["containers"]
        assert container["livenessProbe"]["httpGet"]["path"] == "/ok"
        assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
        assert container["securityContext"]["readOnlyRootFilesystem"]
        env = {each["name"]: each["value"] for each in container["env"]}
        is_worker = container["args"] == ["worker"]
        # A worker has no delay: nobody sends it requests.
        limit = (
            seconds_to_stop(env) if not is_worker else seconds_to_stop({**env, "CALLSHEET_STOP_DELAY_S": "0"})
        )
        assert pod["terminationGracePeriodSeconds"] >= limit
        probe = container["readinessProbe"]
        if not is_worker:
            unready_s = probe["periodSeconds"] * probe["failureThreshold"]
            assert float(env["CALLSHEET_STOP_DELAY_S"]) >= unready_s + 2, "requests still come until then"
    [service] = [one for one in manifests if one["kind"] == "Service"]
    assert service["spec"]["selector"] == {"app": "callsheet", "part": "server"}


def test_the_unit_of_systemd_stops_and_confines_the_server() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text("callsheet.service"))
    service = unit["Service"]
    assert service["ExecStart"].endswith("/callsheet serve")
    assert (service["KillSignal"], service["DynamicUser"]) == ("SIGTERM", "yes")
    # Without a name, systemd gives each unit a user of its own, and chowns the shared folder at each start.
    assert service["User"] == service["StateDirectory"]
    env = dict(re.findall(r"(CALLSHEET_\w+)=(\S+)", text("callsheet.service")))
    assert float(service["TimeoutStopSec"]) >= seconds_to_stop(env)
    assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}"


def test_the_proxies_buffer_no_stream_and_wait_as_long_as_a_run_may_take() -> None:
    run_s = Settings.model_fields["run_timeout_s"].default
    nginx = dict(
        re.findall(r"^\s*(proxy_\w+|client_\w+|keepalive_timeout) ([^;]+);", text("nginx.conf"), re.MULTILINE)
    )
    assert nginx["proxy_buffering"] == "off"
    assert nginx["proxy_http_version"] == "1.1"
    assert float(nginx["proxy_read_timeout"].removesuffix("s")) >= run_s
    import_bytes = 10 * Settings.model_fields["max_import_bytes"].default
    assert int(nginx["client_max_body_size"].removesuffix("m")) * 1_000_000 >= import_bytes
    assert text("nginx.conf").count("{") == text("nginx.conf").count("}")
    for name in ("server-1", "server-2"):
        assert f"server {name}:2024 max_fails=0;" in text("nginx.conf")
    haproxy = text("haproxy.cfg")
    assert "option httpchk GET /ready" in haproxy
    assert "timeout server 1h" in haproxy
    assert run_s <= 3600


def run_linter(program: str, *args: str) -> None:
    """Run a program that checks a file; `.ci/run` installs it."""
    done = subprocess.run(
        [str(need(program)), *args], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def local_copy(name: str, folder: Path) -> str:
    """The path of a copy whose servers have addresses that exist here."""
    copy = folder / name
    copy.write_text(re.sub(r"server-[12]:2024", "127.0.0.1:2024", text(name)))
    return str(copy)


def test_nginx_accepts_its_configuration(tmp_path: Path) -> None:
    own = f"pid {tmp_path}/pid; error_log stderr;"
    run_linter("nginx", "-t", "-p", str(tmp_path), "-c", local_copy("nginx.conf", tmp_path), "-g", own)


def test_haproxy_accepts_its_configuration_without_a_warning(tmp_path: Path) -> None:
    run_linter("haproxy", "-c", "-dW", "-f", local_copy("haproxy.cfg", tmp_path))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed, nor in CI")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "callsheet.service"
    unit.write_text(
        text("callsheet.service").replace("/opt/callsheet/bin/callsheet", shutil.which("true") or "")
    )
    run_linter("systemd-analyze", "verify", str(unit))


@pytest.mark.skipif(
    not shutil.which("promtool"),
    reason="promtool is not installed, nor in CI: it comes with Prometheus, whose package takes 96 MB",
)
def test_prometheus_accepts_the_alerts_and_a_configuration_that_names_them(tmp_path: Path) -> None:
    rules = DEPLOY / "alerts.yml"
    run_linter("promtool", "check", "rules", str(rules))
    scraped = {"job_name": "callsheet", "static_configs": [{"targets": ["server-1:2024"]}]}
    config = tmp_path / "prometheus.yml"
    config.write_text(yaml.safe_dump({"rule_files": [str(rules)], "scrape_configs": [scraped]}))
    run_linter("promtool", "check", "config", str(config))


class UniqueKeys(yaml.SafeLoader):  # type: ignore[misc]  # ships no types
    """A loader that refuses a key which is twice in a mapping: YAML's own keeps the last one silently."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 -- its signature
        names = [key.value for key, _ in node.value]
        assert len(names) == len({*names}), f"{node.start_mark}: {names}"
        return super().construct_mapping(node, deep)


@pytest.mark.parametrize("name", ["alerts.yml", "compose.yaml", "kubernetes.yaml"])
def test_no_yaml_file_has_a_key_twice_a_tab_or_a_space_at_an_end(name: str) -> None:
    assert list(yaml.load_all(text(name), UniqueKeys))
    for number, line in enumerate(text(name).splitlines(), 1):
        assert line == line.rstrip(), f"{name}:{number}"
        assert "\t" not in line, f"{name}:{number}"


FIELDS: Final = {
    "Deployment": {"spec": {"replicas", "selector", "strategy", "template"}},
    "Service": {"spec": {"selector", "ports", "type"}},
    "PodDisruptionBudget": {"spec": {"minAvailable", "maxUnavailable", "selector"}},
}
POD: Final = {
    *("containers", "securityContext", "terminationGracePeriodSeconds", "automountServiceAccountToken"),
    *("volumes", "topologySpreadConstraints", "enableServiceLinks", "serviceAccountName"),
}
CONTAINER: Final = {
    *("name", "image", "args", "env", "envFrom", "ports", "resources", "livenessProbe", "readinessProbe"),
    *("startupProbe", "securityContext", "volumeMounts"),
}
VERSIONS: Final = {
    "apps/v1": {"Deployment"},
    "v1": {"Service", "Secret"},
    "policy/v1": {"PodDisruptionBudget"},
}


def test_kubernetes_manifests_have_known_kinds_and_fields() -> None:
    """Kubernetes drops an unknown field, such as a misspelt probe, with a warning that nobody sees."""
    for one in documents("kubernetes.yaml"):
        assert one["kind"] in VERSIONS[one["apiVersion"]], one["kind"]
        assert {*one} <= {"apiVersion", "kind", "metadata", "spec", "stringData", "type"}
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", one["metadata"]["name"])
        for part, known in FIELDS.get(one["kind"], {}).items():
            assert {*one[part]} <= known, one[part].keys()
        if one["kind"] != "Deployment":
            continue
        pod = one["spec"]["template"]["spec"]
        assert {*pod} <= POD, {*pod} - POD
        for container in pod["containers"]:
            assert {*container} <= CONTAINER, {*container} - CONTAINER
            ports = {port["name"] for port in container["ports"]}
            for probe in ("livenessProbe", "readinessProbe"):
                port = container[probe]["httpGet"]["port"]
                assert port in ports or isinstance(port, int)
            mounts = {mount["name"] for mount in container["volumeMounts"]}
            assert mounts <= {volume["name"] for volume in pod["volumes"]}


def test_alerts_use_only_labels_that_their_metrics_have() -> None:
    """An alert with a misspelt label is never true; `promtool check rules` accepts it."""
    table = (DEPLOY.parent / "docs/operations.md").read_text()
    rows = re.findall(r"^\| `(callsheet_\w+)` \|([^|]*)\|", table, re.MULTILINE)
    labels = {name: {*re.findall(r"\w+", text)} for name, text in rows}
    [alerts] = documents("alerts.yml")
    for rule in alerts["groups"][0]["rules"]:
        expression = rule["expr"]
        used = {*re.findall(r"callsheet_\w+", expression)}
        known = {"instance", "job", "le"}.union(*(labels[name.removesuffix("_bucket")] for name in used))
        by = [name for names in re.findall(r"by \(([^)]*)\)", expression) for name in names.split(", ")]
        chosen = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)
        shown = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
        assert {*by, *chosen, *shown} <= known, (rule["alert"], {*by, *chosen, *shown} - known)
        if by:
            assert {*shown} <= {*by}, rule["alert"]


def test_every_alert_leads_to_a_page_of_the_runbook() -> None:
    runbook = (DEPLOY.parent / "docs/runbook.md").read_text()
    anchors = {
        re.sub(r"[^\w -]", "", line.removeprefix("## ").lower()).replace(" ", "-")
        for line in runbook.splitlines()
        if line.startswith("## ")
    }
    [alerts] = documents("alerts.yml")
    for rule in alerts["groups"][0]["rules"]:
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert page == "docs/runbook.md"
        assert anchor in anchors, (rule["alert"], anchor)
