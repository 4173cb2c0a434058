"""LangGraph checkpoints on Redis 6.2 or newer, or Valkey: no modules, one server or a cluster.

langgraph.json names `saver` as its `checkpointer.path`.
"""

from callsheet.storage.checkpoints.saver import RedisSaver, SaverOptions, saver

__all__ = ["RedisSaver", "SaverOptions", "saver"]
