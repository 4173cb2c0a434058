"""Isolated tools, most of which go over a limit of the sandbox or fail."""

import os
import sys
import time

from callsheet.state.errors import Invalid
from callsheet.tools.registry import tool
from tests.guard.guarded import ProbeArgs


@tool(schema=ProbeArgs, display="Reckoning", isolated=True)
def reckon(args, scope):
    """Add one, and describe the process."""
    os.write(1, b"what a tool prints is none of its answer")
    heavy_modules = [
        name
        for name in ("redis", "httpx", "langchain_core", "langgraph", "callsheet.tools.ads.drafts")
        if name in sys.modules
    ]
    process = {"pid": os.getpid(), "variables": sorted(os.environ), "heavy": heavy_modules}
    return {"n": args.n + 1, "owner": scope.owner, **process}


@tool(schema=ProbeArgs, display="Hoarding", isolated=True)
def hoard(args, scope):
    """Take `n` bytes of memory."""
    return {"n": len(bytearray(args.n))}


@tool(schema=ProbeArgs, display="Spinning", isolated=True)
def spin(args, scope):
    """Use the processor without end."""
    while True:
        pass


@tool(schema=ProbeArgs, display="Sleeping", isolated=True)
def sleep(args, scope):
    """Sleep for an hour."""
    time.sleep(3600)
    return {}


@tool(schema=ProbeArgs, display="Chattering", isolated=True)
def chatter(args, scope):
    """Return a text of `n` characters."""
    return {"text": "x" * args.n}


@tool(schema=ProbeArgs, display="Crashing", isolated=True)
def crash(args, scope):
    """Raise an unexpected error."""
    raise RuntimeError("the password is hunter2")


@tool(schema=ProbeArgs, display="Refusing", isolated=True)
def refuse(args, scope):
    """Refuse the arguments."""
    raise Invalid("not like that", remedy="like this")


TOOLS = (reckon, hoard, spin, sleep, chatter, crash, refuse)
