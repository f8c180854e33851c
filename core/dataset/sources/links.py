"""Links in a folder of classes: no folder is scanned twice, or under the names of two classes."""

import os

from ddlp.core.errors import InvalidInput


class Links:
    """The folders that were reached through links, and what becomes of one more."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._real_root = os.path.realpath(root)
        self._seen: dict[str, str] = {}
        """The real folders below links, and by which path each was reached."""

    def why_skipped(self, path: str, real: str, above: frozenset[str]) -> str | None:
        """Why a folder is not entered, if so; refuses one that is in two classes.

        `path` is how it was reached, `above` are the real folders on the way.
        """
        if real in above or self._is_below(self._real_root, real):
            return f"it is a link to {real}, a folder that it lies in"
        if os.path.join(self._real_root, os.path.relpath(path, self._root)) == real:
            return None  # no link is on the way
        other = self._scanned_as(real) or self._seen.setdefault(real, path)
        if other == path:
            return None
        if self._class_of(other) != self._class_of(path):
            raise InvalidInput(
                f"{path} and {other} are the same folder ({real}), so its images would be in two "
                "classes; remove one of them"
            )
        return f"it is the same folder as {other}, whose images are taken"

    def _scanned_as(self, real: str) -> str | None:
        """The path by which a real folder is reached without links, if it is one of the root's."""
        if not self._is_below(real, self._real_root):
            return None
        parts = os.path.relpath(real, self._real_root).split(os.sep)
        hidden = any(part.startswith(".") for part in parts)
        return None if hidden else os.path.join(self._root, *parts)

    def _class_of(self, path: str) -> str:
        return os.path.relpath(path, self._root).split(os.sep)[0]

    @staticmethod
    def _is_below(path: str, folder: str) -> bool:
        return os.path.commonpath([path, folder]) == folder
