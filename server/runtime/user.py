"""The user of a run, as graphs written for LangGraph's server expect it."""

from typing import Any

from callsheet.server.http.callers import implied_permissions
from callsheet.state.owners import LOCAL

USER = "langgraph_auth_user"
"""Key of `configurable`; LangGraph makes it `runtime.server_info.user`."""


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
        """True: the server admits authenticated callers only."""
        return bool(self["is_authenticated"])

    @property
    def permissions(self) -> list[str]:
        """Least permissions of whoever starts a run; a schedule or a retry has no caller."""
        return list(self["permissions"])


def user_config(owner: str) -> dict[str, Any]:
    """Return the keys of `configurable` for a run's owner; the local owner is no user."""
    if owner == LOCAL:
        return {USER: None, f"{USER}_id": "", "langgraph_auth_permissions": []}
    may = list(implied_permissions("write"))
    user = User(identity=owner, display_name=owner, is_authenticated=True, permissions=may)
    return {USER: user, f"{USER}_id": owner, "langgraph_auth_permissions": may}
