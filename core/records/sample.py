"""Decides what is stored of one sample: a record where it can be one, else its own bytes."""

from dataclasses import dataclass
from functools import partial

from ddlp.core.dataset import DatasetIndex
from ddlp.core.dataset.check import reason_of
from ddlp.core.dataset.layout import SampleRow
from ddlp.core.errors import BadSample, SystemFault, Unavailable
from ddlp.core.image import Kind, backend
from ddlp.core.passing import is_passing
from ddlp.core.patience import fault_of
from ddlp.core.records.options import PackOptions
from ddlp.core.records.smaller import encode_anew


@dataclass(frozen=True)
class PackedSample:
    """What is stored of a sample."""

    row: SampleRow
    data: bytes
    skipped: str | None = None
    """Why it could not be read, or made smaller; then nothing is stored."""

    @property
    def is_record(self) -> bool:
        """Whether it was packed."""
        return self.row.kind == Kind.RECORD and self.skipped is None


def pack_sample(index: DatasetIndex, sample: int, options: PackOptions) -> PackedSample:
    """Read a sample and pack it; one that is damaged stays as it is, so that runs meet it again."""
    row, _ = index.row(sample)
    try:
        return pack_bytes(read_sample(index, sample), row, options)
    except BadSample as error:
        if options.on_bad == "fail":
            raise BadSample(
                f"{index.name(sample)} cannot be packed: {error}; or pack with --on-bad skip"
            ) from error
        return PackedSample(row, b"", str(error))


def pack_bytes(data: bytes, row: SampleRow, options: PackOptions) -> PackedSample:
    """Pack what was read; a BadSample where a damaged record is to be made smaller."""
    if options.lossy:
        data, row = encode_anew(data, row, options)
    if row.kind == Kind.JPEG:
        record = backend().pack_record(data, options.keep_heads)
        if record is not None:
            return PackedSample(row._replace(kind=Kind.RECORD), record)
    return PackedSample(row, data)


def read_sample(index: DatasetIndex, sample: int) -> bytes:
    """A sample's bytes; a BadSample where they will not be there another time either."""
    try:
        data = index.patience.wait_out_unless_lost(
            partial(_read, index, sample), index.another(sample)
        )
    except FileNotFoundError as error:
        if not index.root.exists():
            raise Unavailable(f"{index.root} is not there; is it mounted?") from error
        raise BadSample("it is gone") from error
    except SystemFault as fault:
        if not fault.perhaps_lost:
            raise
        raise BadSample(str(fault)) from fault
    except (OSError, ValueError) as error:
        raise BadSample(reason_of(error)) from error
    if not data:
        raise BadSample("it is empty")
    return data


def _read(index: DatasetIndex, sample: int) -> bytes:
    try:
        return index.read(sample)
    except OSError as error:
        if is_passing(error):
            raise fault_of(error, "read", index.name(sample)) from error
        raise
