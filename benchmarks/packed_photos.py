"""Packs the images that benchmarks use into a folder beside them."""

from pathlib import Path

from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.records import PackOptions, pack_locally

PACKED = "-packed"


def index_of(root: Path) -> Path:
    """Where the index of images lies."""
    return root.with_name(f"{root.name}.index")


def pack(root: Path, ending: str = PACKED, options: PackOptions | None = None) -> Path:
    """Pack the images of a folder into one beside it."""
    into = Path(f"{root}{ending}")
    if not index_of(root).exists():
        scan(root, index_of(root))
    pack_locally(DatasetIndex(index_of(root)), options or PackOptions(), into)
    return into


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
