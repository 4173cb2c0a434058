"""LangGraph's checkpoints on any Redis from 6.2 on, or Valkey: no modules, one server or a cluster.

`saver` is what `checkpointer.path` in langgraph.json names.
"""

from callsheet.storage.checkpoints.saver import RedisSaver, SaverOptions, saver

__all__ = ["RedisSaver", "SaverOptions", "saver"]
