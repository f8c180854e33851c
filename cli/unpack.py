"""Makes image files of a packed dataset again, on this machine."""

from pathlib import Path
from typing import Any

from ddlp.cli.line import Line
from ddlp.core import records
from ddlp.core.errors import InvalidInput
from ddlp.core.records import PackProgress
from ddlp.core.units import size

_NAMED = 10


def find_folder(info: dict[str, Any]) -> Path:
    """Where the shards of a server's dataset lie, which must be seen from here."""
    if info["kind"] != "packed" or info["state"] != "ready":
        raise InvalidInput(
            f"dataset {info['name']} is {info['state']}, of kind {info['kind']}; name a packed one"
        )
    folder = Path(info["uri"])
    if not folder.is_dir():
        raise InvalidInput(
            f"{folder}, where the server has dataset {info['name']}, is not seen from here; "
            "run this on a host that sees it, or name the folder"
        )
    return folder


def unpack_locally(folder: Path, into: Path) -> dict[str, Any]:
    """Write every sample to CLASS/NAME below a folder."""
    with Line() as line:

        def report(now: PackProgress) -> None:
            line.show(f"unpacking: {now.samples:,} files, {size(now.bytes)}")

        made = records.unpack(folder, into.expanduser().absolute(), report)
    return {
        "place": str(into),
        "files": made.files,
        "bytes": made.bytes,
        "left_out": len(made.left_out),
        "reasons": [f"{name}: {why}" for name, why in made.left_out[:_NAMED]],
    }
