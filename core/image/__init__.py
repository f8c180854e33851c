"""From encoded bytes to pixels: heads, decoders, resampling, in two engines of equal bits."""

from ddlp.core.image.arithmetic import ARITHMETIC, same_arithmetic
from ddlp.core.image.backend import Backend, Crops, Encoded, Levels, Slot
from ddlp.core.image.choice import backend, engine_name, engine_reason
from ddlp.core.image.head import MAX_SIDE, ImageHead, Kind
from ddlp.core.image.probe import check, probe, probe_head
from ddlp.core.image.resize import Pixels, Span

__all__ = [
    "ARITHMETIC",
    "MAX_SIDE",
    "Backend",
    "Crops",
    "Encoded",
    "ImageHead",
    "Kind",
    "Levels",
    "Pixels",
    "Slot",
    "Span",
    "backend",
    "check",
    "engine_name",
    "engine_reason",
    "probe",
    "probe_head",
    "same_arithmetic",
]
