"""The names of keys about callers, as in `keys.py`: API keys, rate limits, sessions, imports, the audit."""

from typing import Final

from callsheet.storage.redis.keys import DAY_S, hash_tag

AUDIT: Final = "{audit}:actions"
"""Stream of actions: answers, deletions, keys, budgets, exports and imports."""
AUDIT_TTL_S: Final = 400 * DAY_S
"""Time for which an action is kept, unless there are too many."""
AUDITED_BUDGETS: Final = "{audit}:budgets"
"""Budgets of the operator as the audit has them, JSON."""

RATE_WINDOW_S: Final = 60.0
"""Window in which an owner's requests are counted."""
THREAD_ID_SEED: Final = "threads:secret"
"""Secret that ids of threads are derived with."""
STREAM_LEASE_S: Final = 30.0
"""Time for which an open stream counts unless its process renews it."""
API_KEYS: Final = "apikeys"
"""Sorted set of all API keys' ids, by creation time."""


def api_key(key_id: str) -> str:
    """Hash of an API key: owner, permissions, and the hash of its text."""
    return f"apikey:{hash_tag(key_id)}"


SESSION_TTL_S: Final = 7 * DAY_S
"""Time after which a browser must sign in again."""


def session(digest: str) -> str:
    """Id of the API key that a browser signed in with, by digest of its cookie; expires after a week."""
    return f"session:{hash_tag(digest)}"


def sign_ins(address: str) -> str:
    """Sorted set of recent sign-ins from an address by time; expires with its window."""
    return f"sign-ins:{hash_tag(address)}"


def request_window(owner: str) -> str:
    """Sorted set of the owner's recent requests by time; expires `RATE_WINDOW_S` after the last."""
    return f"owner:{hash_tag(owner)}:requests"


def open_streams(owner: str) -> str:
    """Sorted set of the owner's open streams by end of lease; expires with the last."""
    return f"owner:{hash_tag(owner)}:streams"


def unfinished_import(owner: str, digest: str) -> str:
    """String that is there while the import of a file of the owner's data has not ended."""
    return f"owner:{hash_tag(owner)}:import:{digest}"


def import_lease(owner: str) -> str:
    """String of the token of the import of the owner's data that is at work."""
    return f"owner:{hash_tag(owner)}:import-lease"
