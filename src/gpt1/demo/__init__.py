"""The embedded world: stories to read, tasks to learn, and settings with which the paper's idea shows in minutes."""

from gpt1.demo.tasks import TASKS
from gpt1.demo.writing import write_world

__all__ = ["TASKS", "write_world"]
