"""Calls functions of the kernel with mutated arguments: `python -m tests.core.image.fuzzing …`.

The arguments are the module, the files that mutations are made of, a file that tells the last call,
the first seed, the one after the last, and the functions' names. What became of the calls is
printed. It runs as a child, in which the sanitizers were loaded first: these end it at any step
outside of memory. All seeds are gone through twice, and the second time must take no memory.
"""

import ctypes
import gc
import importlib.util
import json
import os
import pickle
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from tests.core.image.mutations import mutate, mutate_record, mutate_scans, mutate_tiles

Axis = tuple[Any, ...]
_REFUSALS = (
    ValueError,
    NotImplementedError,
    TypeError,
    OverflowError,
    MemoryError,
    OSError,
    BufferError,
)
_SHOWN = 24
"""Pixels along the side of a view at the most."""
_MOST_PIXELS = 1 << 21
_LEAKED_BYTES = 64 << 10
_LARGE = 4096
"""Bytes of a head that libjpeg's first buffer would not hold."""


class Fuzz:
    """The module, its inputs, and the numbers drawn for one call."""

    random: np.random.Generator
    seed: int
    note: str
    """Put before what became of the call."""

    def __init__(self, path: str, inputs: str) -> None:
        self.module = load(path)
        self._memory = ctypes.CDLL(path)
        self.jpegs: list[bytes] = pickle.loads(Path(inputs).read_bytes())
        made = (self._packed(data, head) for data in self.jpegs for head in (False, True))
        self.records = [record for record in made if record]
        self.large = [record for record in self.records if _head_bytes(record) > _LARGE]
        self.folder, self.file = os.open("/", os.O_RDONLY), os.memfd_create("record")

    def _packed(self, data: bytes, keep_head: bool) -> bytes | None:
        try:
            return cast(bytes, self.module.pack(data, keep_head))
        except NotImplementedError:
            return None

    def call(self, name: str, seed: int) -> str:
        """One call; what became of it, without the numbers that a refusal names."""
        self.random, self.seed, self.note = np.random.default_rng([_id(name), seed]), seed, ""
        names = self.module.variants()
        self.module.variant(names[seed % len(names)])
        self._memory.fail_after(int(self.random.integers(0, 8)) if self.chance(0.05) else -1)
        try:
            became = FUZZED[name](self) or "done"
        except _REFUSALS as error:
            said = re.sub(r"[1-9]\d*", "#", str(error))
            became = f"{type(error).__name__}: {said}"
        finally:
            self._memory.fail_after(-1)
        return self.note + became

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def whole(self, low: int, high: int) -> int:
        """A number from low up to, not including, high."""
        return int(self.random.integers(low, high))

    def one_of(self, values: Any) -> Any:
        return values[self.whole(0, len(values))]

    def wild(self) -> Any:
        """What no caller should pass for a number."""
        numbers = [-1, 0, 1 << 20, (1 << 20) + 1, 1 << 31, -(1 << 31) - 1, 1 << 63, (1 << 64) - 1]
        return self.one_of([*numbers, float("nan"), float("inf"), 1e300, None, b"", "x"])

    def exact(self, data: bytes) -> Any:
        """Bytes in memory of exactly their size, so that any step outside is seen."""
        return np.frombuffer(data, np.uint8).copy()

    def jpeg(self) -> bytes:
        """Whole, mutated all over, or only where it is read last."""
        jpeg = self.one_of(self.jpegs)
        if self.chance(0.5):
            return mutate_scans(jpeg, self.seed) if self.chance(0.8) else jpeg
        return mutate(jpeg, self.seed) if self.chance(0.9) else self.any_bytes()

    def record(self) -> bytes:
        """Mutated all over, or only where it is read last."""
        record = self.one_of(self.large if self.chance(0.1) else self.records)
        if self.chance(0.5):
            return mutate_tiles(record, self.seed)
        return mutate_record(record, self.seed) if self.chance(0.9) else self.any_bytes()

    def any_bytes(self) -> bytes:
        return bytes(self.random.bytes(self.whole(0, 100)))

    def axis(self, length: int) -> Axis:
        low = self.whole(0, length)
        high = self.whole(low + 1, length + 1)
        start = float(self.random.random() * length)
        extent = float(max(1e-3, (length - start) * self.random.random()))
        if self.chance(0.3):
            low, high, start, extent = 0, length, 0.0, float(length)
        made = [start, extent, low, high, self.whole(1, _SHOWN + 1)]
        if self.chance(0.02):
            made[self.whole(0, 5)] = self.wild()
        return tuple(made)

    def levels(self) -> Any:
        if self.chance(0.5):
            return None
        made = self.random.random(6).astype(np.float32)
        return self.one_of([made[:5], made[1:], b"", 7]) if self.chance(0.02) else made

    def slots(self, shape: tuple[int, ...], levels: Any) -> Any:
        """Memory for pictures, seen mirrored and turned; seldom of another kind than is asked."""
        kind = np.uint8 if levels is None else np.float32
        if self.chance(0.02):
            kind = self.one_of([np.int8, np.float64, np.uint16, np.float32, np.uint8])
            shape = self.one_of([shape, shape[1:], (*shape, 1), (*shape[:-1], 4), (0, *shape[1:])])
        if self.chance(0.02):
            made = np.zeros(shape, kind)
            made.flags.writeable = False
            return made
        if self.chance(0.02):
            size = int(np.prod(shape)) * np.dtype(kind).itemsize
            return np.zeros(size + 1, np.uint8)[1:].view(kind).reshape(shape)
        if len(shape) < 3:
            return np.zeros(shape, kind)
        *more, height, width, channels = shape
        turned = self.chance(0.3)
        made = np.zeros((*more, *((width, height) if turned else (height, width)), channels), kind)
        made = made.swapaxes(-2, -3) if turned else made
        made = made[..., ::-1, :, :] if self.chance(0.3) else made
        return made[..., ::-1, :] if self.chance(0.3) else made

    def view(self, width: int, height: int) -> tuple[Any, ...]:
        """Size, spans, reduction, slot and levels."""
        across, down, levels = self.axis(width), self.axis(height), self.levels()
        sides = [n if isinstance(n, int) and 0 < n <= _SHOWN else 3 for n in (down[4], across[4])]
        slot = self.slots((*sides, 3), levels)
        if self.chance(0.02):
            width += self.whole(-2, 3)
        return (width, height), across, down, self.chance(0.4), slot, levels


def load(path: str) -> Any:
    """A module of the kernel from a file."""
    spec = importlib.util.spec_from_file_location("_fused", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def functions(module: Any) -> set[str]:
    """The names of all that a module of the kernel exports to be called."""
    return {name for name, value in vars(module).items() if callable(value)} - {"__loader__"}


def _id(name: str) -> int:
    return zlib.crc32(name.encode())


def _head_bytes(record: bytes) -> int:
    return int.from_bytes(record[20:24], "little")


def _walk(fuzz: Fuzz) -> None:
    fuzz.module.walk(fuzz.exact(fuzz.jpeg()))


def _jpeg(fuzz: Fuzz) -> str | None:
    data = fuzz.jpeg()
    _, width, height, _ = fuzz.module.walk(data)
    fuzz.note = "walked, "
    if width * height > _MOST_PIXELS:
        return "too large for a test"
    fuzz.module.jpeg(fuzz.exact(data), *fuzz.view(width, height))
    return None


def _size_of(data: bytes) -> tuple[int, int]:
    """The size that a record claims to have, within what a view can be asked of."""
    sides = [int.from_bytes(data[at : at + 4], "little") for at in (8, 12)]
    width, height = (side if 0 < side <= 65535 else 1 for side in sides)
    return width, height


def _record(fuzz: Fuzz) -> str | None:
    data = fuzz.record()
    width, height = _size_of(data)
    if width * height > _MOST_PIXELS:
        return "too large for a test"
    fuzz.module.record(fuzz.exact(data), *fuzz.view(width, height))
    return None


def _record_at(fuzz: Fuzz) -> str | None:
    data = fuzz.record()
    width, height = _size_of(data)
    if width * height > _MOST_PIXELS:
        return "too large for a test"
    start, size, descriptor = fuzz.whole(0, 100), len(data), fuzz.file
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, data, start)
    if fuzz.chance(0.1):
        size = fuzz.one_of([0, 1, size + 100, 1 << 40, (1 << 64) - 1, (1 << 64) - 64, size - 1])
    elif fuzz.chance(0.05):
        start = fuzz.one_of([0, start + 1, 1 << 40, (1 << 63) - 1, 1 << 63])
    elif fuzz.chance(0.05):
        descriptor = fuzz.one_of([-1, fuzz.folder, 1 << 20])
    fuzz.module.record_at((descriptor, start, size), *fuzz.view(width, height))
    return None


def _pack(fuzz: Fuzz) -> None:
    data = fuzz.jpeg()
    _, width, height, _ = fuzz.module.walk(data)
    fuzz.note = "walked, "
    if width * height <= _MOST_PIXELS:
        fuzz.module.pack(fuzz.exact(data), fuzz.chance(0.5))


def _record_jpeg(fuzz: Fuzz) -> str | None:
    data = fuzz.record()
    width, height = _size_of(data)
    if width * height > _MOST_PIXELS:
        return "too large for a test"
    if _head_bytes(data) > _LARGE:
        fuzz.note = "large head, "
    fuzz.module.record_jpeg(fuzz.exact(data))
    return None


def _pixels(fuzz: Fuzz) -> None:
    height, width = fuzz.whole(1, 60), fuzz.whole(1, 60)
    shown = np.frombuffer(fuzz.random.bytes(height * width * 3), np.uint8)
    shown = shown.reshape(height, width, 3).copy()
    if fuzz.chance(0.2):
        others = [shown[::-1], shown[:, ::2], shown[..., 0], shown.astype("i1"), shown[::2]]
        shown = fuzz.one_of([*others, shown[:0]])
    wide, high = (width, height) if fuzz.chance(0.97) else (width + 5, height + 5)
    _, across, down, _, slot, levels = fuzz.view(wide, high)
    fuzz.module.pixels(shown, across, down, slot, levels)


def _cut(fuzz: Fuzz) -> None:
    images, height, width, count = (fuzz.whole(1, 9) for _ in range(4))
    pixels = fuzz.random.integers(0, 256, (images, height, width, 3), dtype=np.uint8)
    columns = [fuzz.random.integers(0, images, count)]
    columns += [fuzz.random.integers(-12, 12, count) for _ in range(2)]
    columns.append(fuzz.random.integers(0, 2, count).astype(np.bool_))
    if fuzz.chance(0.05):
        columns[fuzz.whole(0, 4)][fuzz.whole(0, count)] = fuzz.one_of([-1, 9, -(1 << 62), 1 << 62])
    if fuzz.chance(0.05):
        at = fuzz.whole(0, 4)
        columns[at] = fuzz.one_of([columns[at][:-1], columns[at].astype("i2"), columns[at][::-1]])
    if fuzz.chance(0.05):
        pixels = fuzz.one_of([pixels[:0], pixels[..., :2], pixels[0], pixels.astype("u2")])
    levels = fuzz.levels()
    slots = fuzz.slots((count, fuzz.whole(1, 20), fuzz.whole(1, 20), 3), levels)
    fuzz.module.cut(pixels, *columns, slots, levels)


def _floats(fuzz: Fuzz) -> None:
    values = fuzz.whole(0, 120) * (3 if fuzz.chance(0.95) else 1)
    out = np.zeros(values if fuzz.chance(0.95) else fuzz.whole(0, 200), np.float32)
    levels = fuzz.levels()
    if fuzz.chance(0.05):
        out = np.zeros(out.nbytes + 1, np.uint8)[1:].view(np.float32)
    fuzz.module.floats(fuzz.exact(fuzz.random.bytes(values)), levels, out)


def _words(fuzz: Fuzz, count: int, below: int) -> Any:
    made = fuzz.random.integers(0, below, count, dtype=np.uint64)
    if fuzz.chance(0.05):
        return np.zeros(8 * count + 1, np.uint8)[1:].view(np.uint64)
    return made[:-1].view(np.uint8)[:-3] if fuzz.chance(0.05) else made


def _uniforms(fuzz: Fuzz) -> None:
    count, draws = fuzz.whole(0, 20), fuzz.whole(0, 9)
    numbers = [fuzz.whole(0, 1 << 32) if fuzz.chance(0.97) else fuzz.wild() for _ in range(3)]
    out = _words(fuzz, count * draws + int(fuzz.chance(0.1)), 2)
    fuzz.module.uniforms(*numbers, _words(fuzz, count, 1 << 63), out)


def _permute(fuzz: Fuzz) -> None:
    bits = fuzz.whole(2, 64)
    below = fuzz.whole((1 << bits - 1) + 1, (1 << bits) + 1)
    if fuzz.chance(0.1):
        bits, below = fuzz.one_of([(0, 1), (1, 2), (64, 5), (63, 1), (bits, 0), (bits, 2 << bits)])
    if fuzz.chance(0.03):
        bits, below = fuzz.wild(), fuzz.wild()
    most = below if isinstance(below, int) and 0 < below < 1 << 63 else 5
    places = _words(fuzz, fuzz.whole(0, 30), most if fuzz.chance(0.9) else 1 << 63)
    fuzz.module.permute(places, _words(fuzz, 10 if fuzz.chance(0.97) else 9, 1 << 63), bits, below)


def _variants(fuzz: Fuzz) -> None:
    fuzz.module.variants(*[fuzz.wild()] * int(fuzz.chance(0.3)))


def _variant(fuzz: Fuzz) -> None:
    names = [*fuzz.module.variants(), None, "", "portabl", "avx2\0", "x" * 5000, 7, b"avx2"]
    fuzz.module.variant(*[fuzz.one_of(names) for _ in range(fuzz.whole(0, 3))])


def _read_so_far(fuzz: Fuzz) -> None:
    fuzz.module.read_so_far(*[fuzz.wild()] * int(fuzz.chance(0.3)))


FUZZED: dict[str, Callable[[Fuzz], str | None]] = {
    "walk": _walk,
    "jpeg": _jpeg,
    "record": _record,
    "record_at": _record_at,
    "pack": _pack,
    "record_jpeg": _record_jpeg,
    "pixels": _pixels,
    "cut": _cut,
    "floats": _floats,
    "uniforms": _uniforms,
    "permute": _permute,
    "variants": _variants,
    "variant": _variant,
    "read_so_far": _read_so_far,
}
"""What calls each function of the module; none may be without."""


def _allocated_bytes() -> int:
    gc.collect()
    told = ctypes.CDLL(None).__sanitizer_get_current_allocated_bytes
    told.restype = ctypes.c_size_t
    return int(told())


def _calls(fuzz: Fuzz, name: str, seeds: range, where: int) -> Iterator[str]:
    for seed in seeds:
        os.pwrite(where, f"{name} {seed}".ljust(40).encode(), 0)
        yield fuzz.call(name, seed)


def main() -> None:
    module, inputs, where, first, end, *names = sys.argv[1:]
    fuzz, seeds = Fuzz(module, inputs), range(int(first), int(end))
    told = os.open(where, os.O_RDWR | os.O_CREAT)
    became = {}
    for name in names:
        became[name] = Counter(_calls(fuzz, name, seeds, told))
        before = _allocated_bytes()
        assert Counter(_calls(fuzz, name, seeds, told)) == became[name], name
        leaked = _allocated_bytes() - before
        assert leaked < _LEAKED_BYTES, f"{name} leaked {leaked} bytes"
    sys.stdout.write(json.dumps(became))


if __name__ == "__main__":
    main()
