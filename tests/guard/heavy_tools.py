"""Tools for processes of their own: they do what such tools must not get away with."""

import os
import sys
import time

from callsheet.state.errors import Invalid
from callsheet.tools.registry import tool
from tests.guard.guarded import ProbeArgs


@tool(schema=ProbeArgs, display="Reckoning", isolated=True)
def reckon(args, scope):
    """Reckon with it."""
    os.write(1, b"what a tool prints is none of its answer")
    heavy = [
        name
        for name in ("redis", "httpx", "langchain_core", "langgraph", "callsheet.tools.ads.drafts")
        if name in sys.modules
    ]
    seen = {"pid": os.getpid(), "variables": sorted(os.environ), "heavy": heavy}
    return {"n": args.n + 1, "owner": scope.owner, **seen}


@tool(schema=ProbeArgs, display="Hoarding", isolated=True)
def hoard(args, scope):
    """Take more memory than there is."""
    return {"n": len(bytearray(args.n))}


@tool(schema=ProbeArgs, display="Spinning", isolated=True)
def spin(args, scope):
    """Spend all there is of the processor."""
    while True:
        pass


@tool(schema=ProbeArgs, display="Sleeping", isolated=True)
def sleep(args, scope):
    """Never come back."""
    time.sleep(3600)
    return {}


@tool(schema=ProbeArgs, display="Chattering", isolated=True)
def chatter(args, scope):
    """Say more than anyone wants to hear."""
    return {"text": "x" * args.n}


@tool(schema=ProbeArgs, display="Crashing", isolated=True)
def crash(args, scope):
    """Fall over."""
    raise RuntimeError("the password is hunter2")


@tool(schema=ProbeArgs, display="Refusing", isolated=True)
def refuse(args, scope):
    """Say no."""
    raise Invalid("not like that", remedy="like this")


TOOLS = (reckon, hoard, spin, sleep, chatter, crash, refuse)
