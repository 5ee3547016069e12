"""What a server logs as JSON, an object a line: requests by path, status and seconds, and faults.

Never what a request says: a path that is not the server's own is called `other`, and of an error only its kind and its
place in the code are told.
"""

from __future__ import annotations

import logging
import traceback
from datetime import UTC, datetime
from typing import Any

from gpt1.base.strict_json import to_json


class JsonLines(logging.Formatter):
    """Records as JSON; what stands in a record's `facts` becomes fields of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            told["error"] = record.exc_info[0].__name__
            told["trace"] = "".join(traceback.format_tb(record.exc_info[2]))
        return to_json(told, ensure_ascii=False)


def json_logging() -> dict[str, Any]:
    """Return a configuration of Python's logging that writes JSON lines to standard error."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": f"{__name__}.{JsonLines.__name__}"}},
        "handlers": {"json": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
        "root": {"handlers": ["json"], "level": "WARNING"},
        "loggers": {"gpt1.serve": {"level": "INFO"}},
    }
