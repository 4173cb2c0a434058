"""Recorded answers of a model, and the loopback endpoint that replays them.

A recording has the answers to one task in the order of its rounds, not by request, so that the wording of a
prompt may change. Forms that a tool lets a model fill in are found by form and subject, since
several may be filled in at once. The endpoint enforces the vendor's rules; the product's own tools execute
the recorded calls.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from callsheet.nodes.nudging import NUDGE
from callsheet.state.tokens import estimate_text
from evals.tasks import EVALS_FOLDER
from tests.doubles.chat_double import ChatDouble, Fail, Recorded, Reply, Say

FOLDER: Final = EVALS_FOLDER / "recordings"
PLANNER: Final = "planner"
PLAIN: Final = "plain"
"""A request without tools, such as one for a summary."""
FORMS: Final = frozenset({"FactSheet", "NarrationScript", "SentenceRepairs", "ScenePatch", "Scene"})
_ABOUT: Final = 60
"""Largest number of characters of a form's subject."""
Answer = dict[str, Any]
"""`text` and `calls` as [name, arguments] of the planner; `form`, `about` and `fills` of a form."""
Recordings = Mapping[str, Sequence[Answer]]
"""Answers by task."""


def load(workflows: Iterable[str]) -> dict[str, list[Answer]]:
    """Return the recorded answers of these workflows' tasks."""
    paths = [FOLDER / f"{name}.jsonl" for name in workflows]
    lines = [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]
    return {line["task"]: line["answers"] for line in lines}


def save(path: Path, recordings: Recordings) -> None:
    """Write recordings, one task a line; earlier ones of other tasks stay."""
    earlier = path.read_text("utf-8").splitlines() if path.exists() else []
    stored = {line["task"]: line["answers"] for line in map(json.loads, earlier)}
    lines = [{"task": task, "answers": answers} for task, answers in {**stored, **recordings}.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), "utf-8")


def subject(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind of a request, and the subject of its form."""
    names = [tool["function"]["name"] for tool in body.get("tools") or ()]
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("name", "")
    form = schema or next((name for name in names if name in FORMS), "")
    if not form:
        return (PLANNER if names else PLAIN), ""
    if form not in {"ScenePatch", "Scene"}:
        return form, ""
    fields = json.loads(body["messages"][1]["content"])
    return form, str(fields["scene"]["name"] if "scene" in fields else fields["request"])[:_ABOUT]


class RecordedEndpoint(ChatDouble):
    """The endpoint; a request names the task as its model."""

    def __init__(self, recordings: Recordings, vendor: str = "openai") -> None:
        super().__init__(vendor=vendor)
        self._unused: dict[tuple[str, str, str], list[Answer]] = defaultdict(list)
        self._count = 0
        self._lock = threading.Lock()
        for task, answers in recordings.items():
            for answer in answers:
                kind = answer.get("form", PLAIN if answer.get("plain") else PLANNER)
                self._unused[task, kind, answer.get("about", "")].append(answer)

    def left_over(self, task: str) -> list[str]:
        """Return the recorded answers of a task that were not requested."""
        return [
            f"{kind} {about}".strip()
            for (name, kind, about), left in self._unused.items()
            if name == task and left
        ]

    def next_reply(self, request: Recorded) -> Reply:
        """Return the next recorded answer to the task; a broken rule comes first."""
        if refused := self.refusal(request):
            return refused
        task = request.body["model"]
        kind, about = subject(request.body)
        if kind == PLANNER and NUDGE in str(request.messages[-1]["content"]):
            # A recorded text stands: it says why nothing was changed, or answers what asks for no change.
            return Say(str(request.messages[-2]["content"]))
        with self._lock:
            left = self._unused[task, kind, about]
            if not left:
                return Fail(400, f"{task} has no further recorded answer for {kind} {about}".strip())
            answer = left.pop(0)
            self._count += 1
            number = self._count
        return _reply(answer, request, number)


def _reply(answer: Answer, request: Recorded, number: int) -> Say:
    """Return the answer; its tokens are estimates."""
    pairs = answer.get("calls", [])
    if "fills" in answer:
        pairs = [[answer["form"], answer["fills"]]]
    calls = [
        (f"call_{number}_{at}", name, args if isinstance(args, str) else json.dumps(args, ensure_ascii=False))
        for at, (name, args) in enumerate(pairs)
    ]
    text = answer.get("text", "")
    read = sum(
        estimate_text(json.dumps(request.body[key])) for key in ("tools", "messages") if key in request.body
    )
    written = estimate_text(text + "".join(args for _, _, args in calls))
    return Say(text, calls, prompt_tokens=read, completion_tokens=written, piece=400)


def answer_of(body: Mapping[str, Any], message: Mapping[str, Any]) -> Answer:
    """Return the recording of a model's message."""
    kind, about = subject(body)
    calls = [
        [one["function"]["name"], _arguments(one["function"]["arguments"])]
        for one in message.get("tool_calls", ())
    ]
    if kind in FORMS:
        identity = {"form": kind, **({"about": about} if about else {})}
        if calls:
            return {**identity, "fills": calls[0][1]}
        return {**identity, "text": message.get("content") or ""}
    plain = {"plain": True} if kind == PLAIN else {}
    text = {"text": message["content"]} if message.get("content") else {}
    return {**plain, **text, **({"calls": calls} if calls else {})}


def _arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
