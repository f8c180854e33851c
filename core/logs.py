"""How processes log: lines for people or one JSON object a line, with what they are about.

Code that is at work on something says so once, with `about`; every line that is logged meanwhile
names it: the run, the epoch, the batch and the device, as far as they are known.
"""

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal

Format = Literal["text", "json"]


_FIELDS = ("run", "epoch", "batch", "device")
_ABOUT: ContextVar[Mapping[str, str | int]] = ContextVar("about", default=MappingProxyType({}))


@contextmanager
def about(
    *,
    run: str | None = None,
    epoch: int | None = None,
    batch: int | None = None,
    device: str | None = None,
) -> Iterator[None]:
    """What is logged in here is about these; what is left out stays as it was outside."""
    given = zip(_FIELDS, (run, epoch, batch, device), strict=True)
    known = {name: value for name, value in given if value is not None}
    token = _ABOUT.set({**_ABOUT.get(), **known})
    try:
        yield
    finally:
        _ABOUT.reset(token)


class AboutFilter(logging.Filter):
    """Lets every record pass, with what it is about; what its own `extra` says comes first."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Attach it to a record."""
        for name, value in _ABOUT.get().items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


def configure(format: Format) -> None:
    """Have this process log to standard error in this form, and nowhere else.

    Our own lines are logged from `info` on, those of libraries from `warning` on; warnings of
    Python come the same way.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    handler.addFilter(AboutFilter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("ddlp").setLevel(logging.INFO)
    logging.captureWarnings(True)


class TextFormatter(logging.Formatter):
    """Lines for people; what one is about stands at its end in brackets."""

    def format(self, record: logging.LogRecord) -> str:
        """One record as a line; what it holds of further lines is indented."""
        message = _printable(record.getMessage()).replace("\n", "\n    ")
        found = " ".join(f"{name}={value}" for name, value in _known(record).items())
        line = f"{_time(record)} {record.levelname} {record.name}: {message}"
        line += _printable(f" [{found}]").replace("\n", " ") if found else ""
        exception = _exception(self, record)
        return f"{line}\n{_printable(exception)}" if exception else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line, for programs."""

    def format(self, record: logging.LogRecord) -> str:
        """One record as a line."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_known(record),
        }
        exception = _exception(self, record)
        if exception:
            line["exception"] = exception
        return json.dumps(line, default=str)


def _printable(text: str) -> str:
    """The same with what a terminal would obey written out as an escape; line ends stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _known(record: logging.LogRecord) -> dict[str, Any]:
    found = {name: getattr(record, name, None) for name in _FIELDS}
    return {name: value for name, value in found.items() if value is not None}


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    if record.exc_info and record.exc_info[0] is not None:
        return formatter.formatException(record.exc_info)
    return record.exc_text
