"""Who a run is for, as graphs that were written for LangGraph's server know it."""

from typing import Any

from callsheet.server.http.callers import implied_permissions
from callsheet.state.owners import LOCAL

USER = "langgraph_auth_user"
"""Key of `configurable`; LangGraph makes `runtime.server_info.user` of it."""


class User(dict[str, Any]):
    """An owner as LangGraph's `BaseUser`: by attribute and by key."""

    @property
    def identity(self) -> str:
        """The owner."""
        return str(self["identity"])

    @property
    def display_name(self) -> str:
        """The owner."""
        return str(self["display_name"])

    @property
    def is_authenticated(self) -> bool:
        """True: a server that asks lets nobody else in."""
        return bool(self["is_authenticated"])

    @property
    def permissions(self) -> list[str]:
        """What whoever starts a run may do at least; a schedule or a retry has no caller to ask."""
        return list(self["permissions"])


def user_config(owner: str) -> dict[str, Any]:
    """Return what `configurable` says of a run's owner; the local one, whom nobody asked, is nobody."""
    if owner == LOCAL:
        return {USER: None, f"{USER}_id": "", "langgraph_auth_permissions": []}
    may = list(implied_permissions("write"))
    user = User(identity=owner, display_name=owner, is_authenticated=True, permissions=may)
    return {USER: user, f"{USER}_id": owner, "langgraph_auth_permissions": may}
