"""The steps of deploy/Dockerfile without Docker: each in mounts of its own, and a root directory for a stage.

The base image's Python and system are those of this machine, read-only; packages come from the registries.
"""

import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

import httpx
import psutil
import pytest

from callsheet.storage.embedded import watchdog
from tests.doubles.auth_cases import bearer
from tests.doubles.command import ROOT
from tests.doubles.needs import need
from tests.doubles.redis_server import free_port, running_redis
from tests.doubles.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
SYSTEM: Final = ("usr", "etc", "bin", "lib", "lib64", "sbin")
DOCKERFILE: Final = ROOT / "deploy/Dockerfile"
NETWORK: Final = re.compile(r"(?i)pip_|npm_config_|ssl_|node_extra|.*_proxy$|.*ca_bundle$")
"""Variables that tell pip and npm the way to the registries."""
ISOLATED: Final = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")
GRAPHS: Final = {"resting": "./stopping_graphs.py:resting"}
PAUSE_S: Final = 3.0


@dataclass
class ImageStage:
    """One stage of the Dockerfile, in a root directory."""

    root: Path
    steps: list[tuple[str, str]]
    """Instructions and their arguments."""
    env: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/local/bin"})
    folder: str = "/"
    user: str = "0:0"

    @property
    def name(self) -> str:
        """The name after `AS`; empty for the last stage."""
        return self.steps[0][1].partition(" AS ")[2]

    def last(self, instruction: str) -> str:
        """The argument of the last instruction of this name."""
        return [text for name, text in self.steps if name == instruction][-1]

    def build(self, stages: Mapping[str, "ImageStage"]) -> None:
        """Carry out all steps."""
        for name in SYSTEM:
            system = Path("/", name)
            if system.is_symlink():
                (self.root / name).symlink_to(system.readlink())
            elif system.exists():
                (self.root / name).mkdir()
        for name in ("dev", "proc", "tmp", "opt"):
            (self.root / name).mkdir()
        for instruction, text in self.steps:
            self._carry_out(instruction, text, stages)

    def _carry_out(self, instruction: str, text: str, stages: Mapping[str, "ImageStage"]) -> None:
        match instruction:
            case "ENV":
                values = (each.partition("=") for each in shlex.split(text))
                self.env |= {key: value.replace("$PATH", self.env["PATH"]) for key, _, value in values}
            case "WORKDIR":
                self.folder = text
                self._inside(text).mkdir(parents=True, exist_ok=True)
            case "USER":
                self.user = text
            case "COPY":
                self._copy(text, stages)
            case "RUN":
                network = {name: value for name, value in os.environ.items() if NETWORK.match(name)}
                self.start(["/bin/sh", "-c", text], network, writes=True).check()

    def _inside(self, path: str) -> Path:
        return self.root / PurePosixPath(self.folder, path).relative_to("/")

    def _copy(self, text: str, stages: Mapping[str, "ImageStage"]) -> None:
        *sources, target = shlex.split(text)
        if sources[0].startswith("--from="):
            source = stages[sources[0].removeprefix("--from=")]
            shutil.copytree(source._inside(sources[1]), self._inside(target), symlinks=True)
        elif sources == ["."]:
            shutil.copytree(ROOT, self._inside(target), symlinks=True, ignore=ignore, dirs_exist_ok=True)
        else:
            for name in sources:
                shutil.copy(ROOT / name, self._inside(target))

    def start(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        writes: bool = False,
        mounted: Path | None = None,
    ) -> "ImageProcess":
        """Start a command as the stage's user; the root is read-only unless it `writes`.

        The folder `mounted` is at the working folder.
        """
        at = shlex.quote(str(self.root))
        system = [name for name in SYSTEM if not (self.root / name).is_symlink() and Path("/", name).exists()]
        mounts = [f"mount --bind {at} {at}"]
        mounts += [f"mount --bind /{name} {at}/{name}" for name in system]
        mounts += [f"mount --bind {shlex.quote(str(python_prefix()))} {at}/usr/local"]
        if mounted:
            mounts += [f"mount --bind {shlex.quote(str(mounted))} {at}{self.folder}"]
        if not writes:
            places = ["", *(f"/{name}" for name in system), "/usr/local", *([self.folder] if mounted else ())]
            mounts += [f"mount -o remount,bind,ro {at}{place}" for place in places]
        mounts += [f"mount --rbind /dev {at}/dev", f"mount -t proc proc {at}/proc"]
        mounts += [f"mount -t tmpfs -o mode=1777 tmpfs {at}/tmp"]
        uid, gid = self.user.split(":")
        user = f"setpriv --reuid {uid} --regid {gid} --clear-groups --no-new-privs --inh-caps -all"
        inside = f'cd {self.folder} && exec "$@"'
        script = f'{" && ".join(mounts)} && exec chroot {at} {user} /bin/sh -c {shlex.quote(inside)} sh "$@"'
        # `mount` and `chroot` are looked for outside, the command inside.
        inner = ["/usr/bin/env", *(f"{name}={value}" for name, value in self.env.items()), *command]
        # The libraries of a Python outside of /usr/local are not where its programs look for them.
        outer = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": "/usr/local/lib", **(env or {})}
        return ImageProcess([*ISOLATED, "/bin/sh", "-c", script, "sh", *inner], outer, self.root.parent)


class ImageProcess:
    """The first process of a container; its output is in files."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        self._out, self._err = (folder / f"{uuid.uuid4().hex}-{name}" for name in ("out", "err"))
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(command, env=env, stdout=out, stderr=err)

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def first(self) -> psutil.Process:
        """The process that has number 1 inside."""
        [child] = psutil.Process(self.process.pid).children()
        return child

    def has_loaded(self, library: str) -> bool:
        """Return whether the process has begun to import what it needs."""
        assert self.process.poll() is None, self.err
        children = psutil.Process(self.process.pid).children()
        return any(library in each.path for child in children for each in child.memory_maps())

    def check(self, timeout_s: float = 600) -> str:
        """Wait for a good end; return the output."""
        assert self.process.wait(timeout_s) == 0, f"{self.out[-2000:]}\n{self.err[-4000:]}"
        return self.out


def python_prefix() -> Path:
    """The folder of the Python that the Dockerfile names, or else of the one that runs the tests."""
    [version] = {*re.findall(r"^FROM python:(\d+\.\d+)", DOCKERFILE.read_text(), re.MULTILINE)}
    for program in (shutil.which(f"python{version}"), sys.executable):
        words = [program or "false", "-c", "import sys; print(sys.base_prefix)"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return Path(done.stdout.strip())
    raise AssertionError("this Python runs")


def ignore(folder: str, names: list[str]) -> set[str]:
    """Return the names that deploy/Dockerfile.dockerignore leaves out."""
    patterns = (ROOT / "deploy/Dockerfile.dockerignore").read_text().split()
    inside = Path(folder).relative_to(ROOT)

    def is_ignored(name: str) -> bool:
        path = str(inside / name)
        return any(
            fnmatch.fnmatch(name, each.removeprefix("**/")) if each.startswith("**/") else path == each
            for each in patterns
        )

    return {name for name in names if is_ignored(name)}


def read_stages(folder: Path) -> list[ImageStage]:
    """The stages of the Dockerfile, with empty root directories in a folder."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    stages: list[ImageStage] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, text = line.strip().partition(" ")
        if name == "FROM":
            stages.append(ImageStage(folder / f"root-{len(stages)}", []))
            stages[-1].root.mkdir()
        if name:
            stages[-1].steps.append((name, text.strip()))
    return stages


@pytest.fixture(scope="module")
def image() -> Iterator[ImageStage]:
    """The last stage, built."""
    need("unshare")
    need("setpriv")
    if os.geteuid():
        pytest.skip("only root may mount")
    # Not pytest's own folder, which no other user may enter.
    folder = Path(tempfile.mkdtemp(prefix="callsheet-image-"))
    folder.chmod(0o755)
    try:
        stages = read_stages(folder)
        for stage in stages:
            stage.build({one.name: one for one in stages})
        yield stages[-1]
    finally:
        shutil.rmtree(folder)


class ImageServer:
    """A container's process that serves."""

    def __init__(self, image: ImageStage, project: Path, redis_url: str) -> None:
        self.port = free_port()
        self._image, self._project, self._redis_url = image, project, redis_url
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)
        self.serving = self.run(*json.loads(image.last("CMD")))

    def run(self, *words: str) -> ImageProcess:
        """Run the image with these arguments."""
        entry = json.loads(self._image.last("ENTRYPOINT"))
        env = {"REDIS_URL": self._redis_url, "CALLSHEET_PORT": str(self.port)}
        return self._image.start([*entry, *words], env, mounted=self._project)

    def is_healthy(self) -> bool:
        """Return whether the image's own check finds the server well."""
        assert self.serving.process.poll() is None, self.serving.err
        command = json.loads(self._image.last("HEALTHCHECK").partition(" CMD ")[2])
        check = self._image.start([word.replace("2024", str(self.port)) for word in command])
        return check.process.wait(30) == 0

    def warnings(self) -> list[str]:
        """The log's lines that are errors or warnings, but for what a stopping server answers to probes."""
        lines = [json.loads(line) for line in self.serving.err.splitlines()]
        bad = [line["event"] for line in lines if line["level"] not in {"info", "debug"}]
        return [event for event in bad if event != "GET /ready 503"]


@contextmanager
def serving(image: ImageStage, project: Path) -> Iterator[ImageServer]:
    with running_redis(watchdog.binary(), project, "--appendonly", "yes") as redis:
        server = ImageServer(image, project, redis.url)
        try:
            until(server.is_healthy, "the check finds the server well", patience_s=90)
            yield server
        finally:
            server.http.close()
            server.serving.process.kill()
            server.serving.process.wait()


def test_the_image_serves_without_root_on_a_read_only_system_and_stops_in_order(
    image: ImageStage, tmp_path: Path
) -> None:
    # The image's user is none of this machine's.
    tmp_path.chmod(0o755)
    shutil.copy(ROOT / "tests/http/stopping_graphs.py", tmp_path)
    (tmp_path / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": GRAPHS}))
    body = {"assistant_id": "resting", "input": {"pause_s": PAUSE_S}}
    with serving(image, tmp_path) as server, ThreadPoolExecutor(1) as pool:
        key = server.run("keys", "create", "alice").check().split()
        [headers] = [bearer(word) for word in key if word.startswith("cs_")]
        assert "<html" in server.http.get("/").text, "the page was built"
        assert server.http.post("/threads", json={}).status_code == 401
        thread = server.http.post("/threads", json={}, headers=headers).json()["thread_id"]
        path = f"/threads/{thread}/runs"
        waiting = pool.submit(partial(server.http.post, f"{path}/wait", json=body, headers=headers))
        until(lambda: server.http.get(path, headers=headers).json(), "the run is in progress")
        server.serving.first.terminate()
        until(lambda: not server.is_healthy(), "the check finds that the server stops", patience_s=30)
        assert waiting.result(60).json() == {"pause_s": PAUSE_S}
        assert server.serving.process.wait(60) == 0
        assert server.warnings() == []


def test_a_container_that_is_stopped_while_it_starts_ends_at_once(image: ImageStage) -> None:
    """The kernel gives the first process of a container no signal that it has no handler for."""
    words = [*json.loads(image.last("ENTRYPOINT")), *json.loads(image.last("CMD"))]
    starting = image.start(words, {"CALLSHEET_PORT": str(free_port())})
    try:
        until(lambda: starting.has_loaded("pydantic_core"), "the start", patience_s=30)
        starting.first.terminate()
        assert starting.process.wait(30) in {0, 128 + signal.SIGTERM}
    finally:
        starting.process.kill()
        starting.process.wait()
