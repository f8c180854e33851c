"""What a packing and its child processes say to each other, a line of JSON each."""

from pathlib import Path
from typing import Any

from ddlp.core.messages import Message


class PackRequest(Message):
    """What a child is to pack, and how; the numbers of shards follow."""

    index_path: Path
    options: dict[str, Any]
    into: Path
    per_shard: int


class PackLine(Message):
    """What a child says of its shard: how far it is, what came of it, or why nothing did."""

    progress: dict[str, Any] | None = None
    summary: dict[str, Any] | None = None
    status: int | None = None
    reason: str = ""
