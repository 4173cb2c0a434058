"""Strict reading of request bodies, ids and keys, and fields that bodies of several domains share.

A body is JSON in UTF-8, whatever its Content-Type. Duplicate keys, lone surrogates, NaN, infinite numbers and
deep nesting are refused, because parsers would disagree on them.
"""

import asyncio
import hashlib
import json
import math
import re
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import IO, Annotated, Any, Final, NamedTuple, NoReturn, TypeVar, cast

from fastapi import APIRouter, Header, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict

from callsheet.providers import PROVIDERS
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.policy import decode_path_params
from callsheet.server.http.replies import JsonReply
from callsheet.state.context import Context
from callsheet.state.errors import Invalid, Malformed, Missing
from callsheet.state.plan import canonical_json
from callsheet.storage.runs import idempotency
from callsheet.storage.threads import threads

MAX_DEPTH: Final = 100
"""Levels of nesting."""
MAX_ID: Final = 255
"""Length of an id or an idempotency key, in characters."""
NOWHERE: Final = -1
"""Position of a fault in JSON that has none."""


def _require_number(value: Any) -> Any:
    # In JSON Schema neither "10" nor true is an integer, but 10.0 is.
    if isinstance(value, str | bool):
        raise ValueError(f"{value!r:.40} is not a number")  # noqa: TRY004 -- pydantic expects a ValueError
    return value


Flag = Annotated[bool, Strict()]
"""True or false, not a text or number."""


Number = Annotated[float, Strict()]
"""A number, not a text of digits."""


Integer = Annotated[int, BeforeValidator(_require_number)]
"""An integer, not a text of digits."""


IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="1 to 255 printable characters; the same key within a day returns the first reply",
    ),
]


def identifier(text: str, field_name: str) -> str:
    """Return `text` if it is a valid id: 1 to 255 printable characters; raise `Invalid` otherwise."""
    if not 0 < len(text) <= MAX_ID or not text.isprintable():
        raise Invalid(
            f"{field_name} {text[:40]!r} must have 1 to {MAX_ID} printable characters, and has {len(text)}",
            remedy=f"send another {field_name}",
        )
    return text


def checked_idempotency_key(idempotency_key: str | None) -> str | None:
    """Return the key if it is None or valid; raise `Invalid` otherwise."""
    return None if idempotency_key is None else identifier(idempotency_key, "Idempotency-Key")


IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", max_length=300, description='Version that the edit is based on, such as "v3"'),
]


def expected_version(if_match: str | None, version: str | None) -> str:
    """Return the version that an edit is based on, from the header or the body; raise `Invalid` for none."""
    header = (if_match or "").strip().removeprefix("W/").strip('"')
    names = {name for name in (header, version) if name}
    if len(names) != 1:
        raise Invalid(
            "the edit does not name one version that it is based on",
            remedy='send `version`, or the header If-Match: "v3", with the newest version that you know',
        )
    return names.pop()


class ModelChoice(BaseModel):
    """Model fields of every request that runs a model."""

    model_config = ConfigDict(extra="ignore")

    provider: str | None = Field(
        None, max_length=80, description=f"{', '.join(PROVIDERS)}; chosen by language when left out"
    )
    model: str | None = Field(None, max_length=200, description="provider/model; wins over `provider`")

    def context(self) -> Context:
        """Return the run's context."""
        names = ("provider", "model", "budget", "complexity")
        chosen = {name: getattr(self, name, None) for name in names}
        return cast("Context", {name: value for name, value in chosen.items() if value})


class StrictRoute(APIRoute):
    """A route that reads bodies with `parse_json`, and decodes the ids in paths."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """`options` are FastAPI's."""
        super().__init__(path, endpoint, **options | {"strict_content_type": False})

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler with the strict request."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(_strict_scope(request), request.receive))

        return strictly


def api_router(prefix: str, tag: str) -> APIRouter:
    """Return a router of the domain API: strict requests, and replies as JSON."""
    return APIRouter(prefix=prefix, route_class=StrictRoute, tags=[tag], default_response_class=JsonReply)


_LARGE: Final = 1_000_000
"""Bytes of a body that may take a tenth of a second and more to parse."""


async def parse_json_aside(body: bytes) -> Any:
    """Return as `parse_json`; a large body is parsed in a thread, so that other requests do not wait."""
    return parse_json(body) if len(body) <= _LARGE else await asyncio.to_thread(parse_json, body)


class _StrictRequest(Request):
    async def json(self) -> Any:
        return await parse_json_aside(await self.body())


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON body; raise `json.JSONDecodeError` with the violated rule.

    Its position is `NOWHERE` where none is known.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _refuse("it is not UTF-8", error.start)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        _refuse(_TOO_DEEP)
    except ValueError as error:
        _refuse(str(error))
    _check(value)
    return value


_TOO_DEEP: Final = f"it is nested more than {MAX_DEPTH} levels deep"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        duplicate = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"it has the key {duplicate[:80]!r} twice")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_number, parse_float=_finite)


def _check(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        for text in level:
            if isinstance(text, str) and not text.isascii():
                _encodable(text)
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return
    _refuse(_TOO_DEEP)


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else []


def _encodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse("it has half of a surrogate pair, which is no character")


def _refuse(rule: str, position: int = NOWHERE) -> NoReturn:
    raise json.JSONDecodeError(rule, "", position) from None


def _strict_scope(request: Request) -> dict[str, Any]:
    """Return the scope with decoded ids, and without a Content-Type, so that every body is read as JSON."""
    return {
        **request.scope,
        _CONTENT_TYPE: request.headers.get("content-type", ""),
        "headers": [pair for pair in request.scope["headers"] if pair[0] != b"content-type"],
        "path_params": decode_path_params(request.path_params),
    }


_CONTENT_TYPE: Final = "callsheet.content_type"
_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
_FORM: Final = {"schema": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}}}
UPLOAD_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": _BINARY, "multipart/form-data": _FORM},
    }
}
"""OpenAPI of a body that `receive_upload` reads."""
_BOUNDARY: Final = re.compile(r';\s*boundary="?([^";,]{1,70})"?', re.IGNORECASE)
_FILE_NAME: Final = re.compile(r'[; ]filename="([^"]{0,255})"', re.IGNORECASE)
_MAX_PART_HEADERS: Final = 8_192
_MAX_FORM_FIELD: Final = 65_536


class ReceivedFile(NamedTuple):
    """A file that a request brought."""

    name: str
    """As the form names it; empty for a body that is the file itself."""
    media_type: str


async def receive_upload(request: Request, file: IO[bytes]) -> ReceivedFile:
    """Write the request's file into `file`: the body itself, or the one file of a form as browsers send it.

    Raises `Malformed` for a form without a file or with several, and for one that is incomplete.
    """
    content_type = request.scope.get(_CONTENT_TYPE) or request.headers.get("content-type", "")
    if not content_type.strip().lower().startswith("multipart/form-data"):
        async for piece in request.stream():
            await asyncio.to_thread(file.write, piece)
        return ReceivedFile("", content_type)
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise Malformed("the form has no boundary", remedy="let the client set the Content-Type of the form")
    form = _FormReader(f"\r\n--{boundary[1]}".encode("latin-1"), file)
    async for piece in request.stream():
        await asyncio.to_thread(form.feed, piece)
    return form.finish()


class _FormReader:
    """Parts of a form, read in pieces; the file is written, fields beside it are left out."""

    def __init__(self, delimiter: bytes, file: IO[bytes]) -> None:
        self._delimiter = delimiter
        self._file = file
        # The first delimiter stands at the beginning of the body, without a line end.
        self._buffer = bytearray(b"\r\n")
        self._upload: ReceivedFile | None = None
        self._in_headers = self._in_file = self._skip_line_end = self._ended = False
        self._field_bytes = 0

    def feed(self, piece: bytes) -> None:
        """Read the next piece of the body."""
        self._buffer += piece
        while not self._ended and (self._read_headers() if self._in_headers else self._read_content()):
            pass

    def finish(self) -> ReceivedFile:
        """Return the file's name and type."""
        if not self._ended:
            raise Malformed("the form is incomplete: its last line is missing", remedy="send it again")
        if self._upload is None:
            raise Malformed("the form has no file", remedy="send the file in a field with a file name")
        return self._upload

    def _read_headers(self) -> bool:
        """Read a part's headers; return False if more bytes are needed."""
        if self._buffer.startswith(b"--"):
            self._ended = True
            return False
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_PART_HEADERS:
                raise Malformed(
                    "a part of the form has no end of its headers", remedy="send a form as browsers do"
                )
            return False
        headers = self._buffer[:end].decode("utf-8", "replace")
        # Two bytes stay: an empty part ends at the line end before its delimiter.
        del self._buffer[: end + 2]
        self._in_headers, self._in_file = False, False
        if name := _FILE_NAME.search(headers):
            if self._upload:
                raise Malformed("the form has several files", remedy="send one file in each request")
            lines = [line.partition(":") for line in headers.split("\r\n")]
            kinds = [value.strip() for key, _, value in lines if key.strip().lower() == "content-type"]
            self._upload = ReceivedFile(name[1], next(iter(kinds), ""))
            self._in_file = self._skip_line_end = True
        return True

    def _read_content(self) -> bool:
        """Read a part's content up to the next delimiter; return False if more bytes are needed."""
        end = self._buffer.find(self._delimiter)
        # The beginning of a delimiter may be the end of the buffer.
        until = end if end >= 0 else len(self._buffer) - len(self._delimiter)
        if end < 0 and until < len(b"\r\n"):
            return False
        self._keep(bytes(self._buffer[:until]))
        del self._buffer[:until]
        if end < 0:
            return False
        del self._buffer[: len(self._delimiter)]
        self._in_headers = True
        return True

    def _keep(self, content: bytes) -> None:
        if self._in_file:
            if self._skip_line_end and content:
                content, self._skip_line_end = content[2:], False
            self._file.write(content)
            return
        self._field_bytes += len(content)
        if self._field_bytes > _MAX_FORM_FIELD:
            raise Malformed("the form has long fields beside its file", remedy="send options in the address")


_HEADER: Final = "Idempotency-Key"
_PARAMETER: Final = {
    "name": _HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "1 to 255 printable characters; within a day, the same key and body create nothing more",
}
IDEMPOTENT: Final[dict[str, Any]] = {"parameters": [_PARAMETER]}
"""OpenAPI of a route that takes a key, which `create_once` reads."""
T = TypeVar("T")
_Created = TypeVar("_Created")
_Existing = TypeVar("_Existing")
_LEAVING_S: Final = 0.25
"""Seconds between two looks at whether a client has left."""


async def while_connected(request: Request, work: Coroutine[Any, Any, T], otherwise: T) -> T:
    """Return the result of `work`; once the client has left, cancel it and return `otherwise`.

    Nobody reads the reply then.
    """
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=_LEAVING_S))[0]:
            if await request.is_disconnected():
                return otherwise
        return await task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def create_once(
    request: Request,
    body: BaseModel | Sequence[BaseModel],
    create: Callable[[str], Awaitable[_Created]],
    find: Callable[[str], Awaitable[_Existing]],
    path: str = "",
) -> _Created | _Existing:
    """Return `create(id)`, or `find(id)` if the request with this key and body has created it before.

    The id follows from owner, path, key and body, so a request whose first reply was lost finds what it
    created. `find` raises `Missing` for nothing. Raises `Conflict` for a key sent with another body, and
    `Missing` for a thing deleted since.
    """
    key = checked_idempotency_key(request.headers.get(_HEADER))
    if key is None:
        return await create(str(uuid.uuid4()))
    storage, owner = app_context(request).storage, current_owner(request)
    digest = body_digest(body)
    path = path or request.url.path
    name = canonical_json(["request", path, key, digest])
    recorded, new_id = await asyncio.gather(
        idempotency.find(storage, owner, path, key), threads.derived_id(storage, owner, name)
    )
    if recorded not in {None, digest}:
        raise idempotency.reused_key(key)
    try:
        return await find(new_id)
    except Missing:
        if recorded:
            raise
    created = await create(new_id)
    await idempotency.record(storage, owner, path, key, digest)
    return created


def body_digest(body: BaseModel | Sequence[BaseModel]) -> str:
    """Return the SHA-256 of what a request sent, in hex."""
    parts = [body] if isinstance(body, BaseModel) else body
    fields = [part.model_dump(mode="json", exclude_unset=True) for part in parts]
    return hashlib.sha256(canonical_json(fields).encode()).hexdigest()
