"""Where a store is, as people write it: a folder, `file:///folder`, or `s3://bucket/prefix`."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import quote, unquote_to_bytes

from ddlp.core.errors import InvalidInput

FILE, S3 = "file", "s3"
_URL = re.compile(r"([a-z0-9]+)://([^/?#]*)(/(?!.*%00)[^?#\0]*|)")
_SECRET = re.compile(r"//[^/]*@")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]+")


@dataclass(frozen=True)
class StoreAddress:
    """A folder of some filesystem, or a prefix in a bucket."""

    scheme: str
    path: Path
    """The folder; of a bucket the prefix, which may be empty."""
    bucket: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """From a path or a URL; a path must not depend on where it is read."""
        if text.startswith("/") and "\0" not in text:
            return cls(FILE, Path(text))
        match = _URL.fullmatch(text)
        scheme, place, path = match.groups() if match else ("", "", "")
        if scheme == FILE and place in ("", "localhost") and path:
            return cls(FILE, _unquoted(path))
        if scheme == S3 and _BUCKET.fullmatch(place):
            return cls(S3, _unquoted(path.strip("/")), place)
        raise InvalidInput(
            f"{_SECRET.sub('//', text)!r} is not the address of a store; write a folder's whole "
            "path, file:///FOLDER or s3://BUCKET/PREFIX"
        )

    @classmethod
    def given(cls, text: str | Path) -> Self:
        """From what somebody wrote here: a path may depend on the folder we are in."""
        if isinstance(text, Path) or ":" not in text:
            return cls(FILE, Path(text).absolute())
        return cls.parse(text)

    @property
    def folder(self) -> Path | None:
        """The folder, where it is one."""
        return self.path if self.scheme == FILE else None

    @property
    def url(self) -> str:
        """As it is registered and shown; a batch's address is this, a slash, and its name."""
        if self.scheme == FILE:
            return f"file://{_quoted(self.path)}"
        prefix = f"/{_quoted(self.path)}" if self.path.parts else ""
        return f"s3://{self.bucket}{prefix}"

    def __str__(self) -> str:
        return self.url


def path_of(location: str) -> Path:
    """The file that a batch's address names."""
    folder = StoreAddress.parse(location).folder
    if folder is None:
        raise InvalidInput(f"{location} is not a file")
    return folder


def _quoted(path: Path) -> str:
    """A path in a URL, whatever bytes its names are made of."""
    return quote(os.fsencode(path))


def _unquoted(text: str) -> Path:
    return Path(os.fsdecode(unquote_to_bytes(text)))
