"""What callers send: the fields of every request, and how strictly a body is read.

A body is JSON in UTF-8, whatever its Content-Type says. A key given twice, half a surrogate pair, a number
JSON has no word or no room for, or a hundred levels of nesting are refused: readers would disagree on what
they mean.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final, NoReturn, cast

from fastapi import Header, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Strict, Tag
from starlette.routing import Match
from starlette.types import Scope

from callsheet.server.ads.service import ChatRequest, GenerateRequest
from callsheet.server.http import direct
from callsheet.server.http.direct import decode_path_params
from callsheet.state.context import Context

MAX_DEPTH: Final = 100
"""Levels of nesting."""


def _whole(told: Any) -> Any:
    # A text of digits is no number in JSON Schema, nor is true; 10.0 is a whole one.
    if isinstance(told, str | bool):
        raise ValueError(f"{told!r:.40} is not a number")  # noqa: TRY004 -- what pydantic understands
    return told


Flag = Annotated[bool, Strict()]
"""True or false, and nothing that may stand for one."""
Number = Annotated[float, Strict()]
"""A number, not a text of digits."""
Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number, not a text of digits."""
Brief = Annotated[
    Annotated[str, Tag("text")] | Annotated[dict[str, Any], Tag("object")],
    Discriminator(
        lambda told: {str: "text", dict: "object"}.get(type(told)),
        custom_error_type="brief_type",
        custom_error_message="Input should be text or an object",
    ),
]
"""A brief in either shape (A-R15); what is neither is told once, not as a fault for each of the two."""
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="1 to 255 printable characters; the same again within a day gives the first reply again",
    ),
]
_Db = Field(None, ge=-60, le=12)


class ModelChoice(BaseModel):
    """What every request that has a model work may choose."""

    model_config = ConfigDict(extra="ignore")

    provider: str | None = Field(
        None, max_length=80, description="openai or offline; chosen by language when left out"
    )
    model: str | None = Field(None, max_length=200, description="provider/model; wins over `provider`")

    def context(self) -> Context:
        """Return what the caller chose for the run."""
        names = ("provider", "model", "budget", "complexity")
        chosen = {name: getattr(self, name, None) for name in names}
        return cast("Context", {name: value for name, value in chosen.items() if value})


class _AboutAd(ModelChoice):
    conversationId: str | None = Field(None, description="The ad's conversation; its own id unless chosen")
    language: str | None = Field(None, description="Name, ISO-639-1 code, BCP-47 tag or native name")
    market: str | None = Field(None, max_length=200, description="Where it will air, such as US")
    budget: str | None = Field(None, max_length=80, description="premium or cost-effective")
    complexity: str | None = Field(None, max_length=80, description="simple or complex")


class AdGenerate(_AboutAd):
    """A brief that is to become an ad (A50)."""

    adId: str = Field(description="1 to 255 printable characters; an ad that exists is begun anew")
    brief: Brief = Field(
        description="A sentence, or {clientDescription, targetAudience, format, duration, market, language, "
        "additionalContext} (A51)"
    )
    duration: Number | None = Field(None, description="The spot's length in seconds; wins over the brief's")
    useToolCalling: bool | None = Field(None, description="Accepted; tools are always used")

    def to_request(self, owner: str, idempotency_key: str | None) -> GenerateRequest:
        """Return the request as the job it asks for."""
        return GenerateRequest(
            ad_id=self.adId,
            brief=self.brief,
            language=self.language,
            market=self.market,
            duration=self.duration,
            conversation_id=self.conversationId,
            context=self.context(),
            owner=owner,
            idempotency_key=idempotency_key,
        )


class AdChat(_AboutAd):
    """What a person says about an ad (A55)."""

    message: str
    duration: Number | None = Field(None, description="The spot's length in seconds from now on")

    def to_request(self, ad_id: str, owner: str, idempotency_key: str | None) -> ChatRequest:
        """Return the request as the job it asks for."""
        return ChatRequest(
            ad_id=ad_id,
            message=self.message,
            conversation_id=self.conversationId,
            language=self.language,
            market=self.market,
            duration=self.duration,
            context=self.context(),
            owner=owner,
            idempotency_key=idempotency_key,
        )


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class MusicMix(_Strict):
    """How the music sounds under the voices."""

    volumeDb: Number | None = _Db
    duckingDb: Number | None = Field(None, ge=-60, le=0, description="Change while a voice speaks")
    fadeInSeconds: Number | None = Field(None, ge=0, le=30)
    fadeOutSeconds: Number | None = Field(None, ge=0, le=30)


class SfxMix(_Strict):
    """How loud the effects are."""

    volumeDb: Number | None = _Db


class MixerUpdate(_Strict):
    """What to change at the mixer; all in decibels but the fades (A35)."""

    voices: dict[str, Annotated[Number, Field(ge=-60, le=12)]] = Field(
        default_factory=dict, description="Gain by track id, -60 to 12"
    )
    music: MusicMix = Field(default_factory=MusicMix)
    sfx: SfxMix = Field(default_factory=SfxMix)


class StrictRoute(APIRoute):
    """A route whose body is read by `read`, and whose path was split by `EncodedSlashMiddleware`."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """`options` are FastAPI's."""
        super().__init__(path, endpoint, **options | {"strict_content_type": False})
        self._depth = path.count("/")
        if direct.is_direct(self):
            self.app = direct.DirectEndpoint(self, parse_json)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As Starlette's, without a search where a path has another number of parts."""
        if scope["path"].count("/") != self._depth and not scope.get("root_path"):
            return Match.NONE, {}
        return super().matches(scope)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, given our request."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(_as_meant(request), request.receive))

        return strictly


class _StrictRequest(Request):
    async def json(self) -> Any:
        return await direct.read_body_value(self, parse_json)


def parse_json(body: bytes) -> Any:
    """Return the value that `body` spells; raises `json.JSONDecodeError` with the rule it breaks."""
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
    found = dict(pairs)
    if len(found) < len(pairs):
        times = Counter(name for name, _ in pairs)
        twice = next(name for name, count in times.items() if count > 1)
        raise ValueError(f"it has the key {twice[:80]!r} twice")
    return found


def _finite(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise ValueError(f"{text[:40]} is too large a number")
    return found


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


def _refuse(rule: str, position: int = 0) -> NoReturn:
    raise json.JSONDecodeError(rule, "", position) from None


def _as_meant(request: Request) -> dict[str, Any]:
    """The request's scope, ids as they were sent; a body of which nothing is said is read as JSON."""
    return {
        **request.scope,
        "headers": [pair for pair in request.scope["headers"] if pair[0] != b"content-type"],
        "path_params": decode_path_params(request.path_params),
    }
