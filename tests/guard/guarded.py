"""A registry with one tool, a step and a scope, for tests of the guard."""

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.plan import Step
from callsheet.tools.call import Scope
from callsheet.tools.registry import index, tool

SCOPE = Scope("local", "t", "ad", "kopi", run="r", task="task", epoch=1)


class ProbeArgs(BaseModel):
    model_config = ConfigDict(extra="forbid")
    adId: str = "kopi"  # noqa: N815 -- the wire's spelling
    n: int = Field(1, ge=0)


def registry_with_tool(run, name="probe", **more):
    """A registry with one tool."""
    run.__name__ = name
    run.__doc__ = "Do it."
    return index(probes=[tool(schema=ProbeArgs, display="Probing", subject="adId", **more)(run)])


def step(params=None, *, writes=("music",), raw=None, tool="probe", call="c1"):
    """A step that calls the tool."""
    fields = Step(
        id=call, tool=tool, display="", params=params or {}, dependencies=[], reads=[], writes=[*writes]
    )
    return fields if raw is None else Step(**fields, raw=raw)


async def write(args, call):
    """Write a version of the music, as a tool with an effect does."""
    return await call.write("music", {"n": args.n}, result={"status": "draft"})
