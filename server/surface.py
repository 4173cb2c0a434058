"""All of the server that is slow to import: the workflows, and the routes that need them."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from langgraph.pregel import Pregel

from graphs import ad_creation
from server.api import ads, health, versions

GRAPHS: Final[Mapping[str, Pregel[Any, Any]]] = {"ad_creation": ad_creation.graph}
ROUTERS: Final[tuple[APIRouter, ...]] = (health.router, ads.router, versions.router)
"""In this order: what one ad has beside its streams comes before the streams."""
