from typing import Any

ARITHMETIC: int
Axis = tuple[float, float, int, int, int]

def walk(data: bytes, /) -> tuple[int, int, int, int]: ...
def jpeg(
    data: bytes,
    size: tuple[int, int],
    across: Axis,
    down: Axis,
    reduce: bool,
    slot: Any,
    levels: Any,
    /,
) -> None: ...
def record(
    data: Any,
    size: tuple[int, int],
    across: Axis,
    down: Axis,
    reduce: bool,
    slot: Any,
    levels: Any,
    /,
) -> None: ...
def record_at(
    part: tuple[int, int, int],
    size: tuple[int, int],
    across: Axis,
    down: Axis,
    reduce: bool,
    slot: Any,
    levels: Any,
    /,
) -> None: ...
def pack(data: Any, keep_head: bool, /) -> bytes: ...
def record_jpeg(data: Any, /) -> bytes: ...
def pixels(pixels: Any, across: Axis, down: Axis, slot: Any, levels: Any, /) -> None: ...
def cut(
    pixels: Any, samples: Any, left: Any, top: Any, mirrored: Any, slots: Any, levels: Any, /
) -> None: ...
def floats(pixels: Any, levels: Any, out: Any, /) -> None: ...
def uniforms(key0: int, key1: int, epoch: int, samples: Any, out: Any, /) -> None: ...
def permute(places: Any, keys: Any, bits: int, below: int, /) -> None: ...
def read_so_far() -> tuple[float, int]: ...
def variants() -> list[str]: ...
def variant(name: str | None = ..., /) -> str: ...
