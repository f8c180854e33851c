"""Reads a pipeline's transforms from a file."""

import json
import sys
from pathlib import Path
from typing import Any

from ddlp.core.errors import InvalidInput

_FORM = 'write a list of transforms, such as [{"name": "flip"}], or {"transforms": [...]}'


def read_transforms(file: str) -> list[Any]:
    """The transforms that a JSON file lists; `-` is standard input."""
    name = "standard input" if file == "-" else file
    try:
        value = json.loads(_read(file, name))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} is not JSON ({error}); {_FORM}") from error
    if isinstance(value, dict):
        value = value.get("transforms")
    if not isinstance(value, list):
        raise InvalidInput(f"{name} holds no list of transforms; {_FORM}")
    return value


def _read(file: str, name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"{name} cannot be read ({error.strerror}); name a JSON file, or - for standard input"
        ) from error
