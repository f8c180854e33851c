"""The kernel under the address and undefined-behaviour sanitizers, over good and damaged files."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from ddlp.core.image import Backend
from tests.core.image.corpus import KINDS, Encoder
from tests.core.image.mutations import mutate, mutate_record

KERNEL = Path(__file__).parents[3] / "core/image/c"
FLAGS = [
    "-std=c11",
    "-D_GNU_SOURCE",
    "-DEXACT_BUFFERS",
    "-O1",
    "-g",
    "-ffp-contract=off",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    *("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wvla", "-Werror"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    sources = [path for path in sorted(KERNEL.glob("*.c")) if path.name != "module.c"]
    program = tmp_path_factory.mktemp("sanitized") / "sanitized"
    driver = Path(__file__).with_name("sanitized.c")
    command = [compiler, *FLAGS, f"-I{KERNEL}", "-o", program, driver, *sources, "-ljpeg", "-lm"]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode and ("jpeglib.h" in built.stderr or "cannot find" in built.stderr):
        pytest.skip(f"it cannot be built here: {built.stderr[-300:]}")
    assert built.returncode == 0, built.stderr
    return program


def put_through(program: Path, files: list[bytes], *words: str) -> tuple[int, int]:
    """How many views were decoded and how many refused; fails on the first complaint."""
    entries = b"".join(struct.pack("<I", len(data)) + data for data in files)
    ran = subprocess.run([program, *words], input=entries, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()[-4000:]
    decoded, refused = ran.stdout.split()
    return int(decoded), int(refused)


def originals(encoder: Encoder) -> list[bytes]:
    return [encoder.encode(way, *size) for way in KINDS for size in [(1, 1), (17, 33), (97, 61)]]


def packed(fused: Backend, encoder: Encoder) -> list[bytes]:
    made = (fused.pack_record(data, keep_head=True) for data in originals(encoder))
    return [record for record in made if record is not None]


def test_good_files(program: Path, encoder: Encoder) -> None:
    files = originals(encoder)
    assert put_through(program, 2 * files) == (2 * 3 * len(files), 0)


def test_damaged_files(program: Path, encoder: Encoder) -> None:
    files = originals(encoder)
    damaged = [mutate(files[seed % len(files)], seed) for seed in range(6000)]
    decoded, refused = put_through(program, [*damaged, b"", b"\xff", b"\xff\xd8\xff"])
    assert decoded > 1000
    assert refused > 1000


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_very_many_damaged_files(program: Path, encoder: Encoder) -> None:
    files = originals(encoder)
    for start in range(0, 120_000, 10_000):
        seeds = range(1_000_000 + start, 1_000_000 + start + 10_000)
        put_through(program, [mutate(files[seed % len(files)], seed) for seed in seeds])


def test_good_records(program: Path, fused: Backend, encoder: Encoder) -> None:
    records = packed(fused, encoder)
    assert len(records) > 20
    assert put_through(program, 3 * records, "records") == (3 * 3 * len(records), 0)


def test_damaged_records(program: Path, fused: Backend, encoder: Encoder) -> None:
    records = packed(fused, encoder)
    damaged = [mutate_record(records[seed % len(records)], seed) for seed in range(6000)]
    decoded, refused = put_through(program, [*damaged, b"", b"\1", b"\1" * 40], "records")
    assert decoded > 1000
    assert refused > 1000


def greedy_end(record: bytes) -> bytes:
    """The last tile names every value of its patches, each as wide as can be: far too many bits."""
    across, down, mcus = record[3] >> 4, record[3] & 15, record[4]
    width, height, head = (int.from_bytes(record[at : at + 4], "little") for at in (8, 12, 20))
    rows, columns = -(-height // (8 * down)), -(-width // (8 * across))
    tiles = -(-columns // mcus)
    sizes = 24 + 128 * record[16] + 4 * rows + 2 * rows * tiles
    size = int.from_bytes(record[sizes - 2 : sizes], "little")
    blocks = (columns - (tiles - 1) * mcus) * (across * down + record[1] - 1)
    masks = len(record) - 16 - head - size + 2 + blocks
    named = sum(patches.bit_count() for patches in record[masks - blocks : masks])
    end = masks + named + (named + 1) // 2
    return record[:masks] + b"\xff" * (end - masks) + record[end:]


def test_no_tile_reads_beyond_the_end(program: Path, fused: Backend, encoder: Encoder) -> None:
    """In every variant: neighbours in the list are put through one after the other."""
    greedy = [greedy_end(record) for record in packed(fused, encoder) for _ in range(3)]
    _, refused = put_through(program, greedy, "records")
    assert refused >= len(greedy)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_very_many_damaged_records(program: Path, fused: Backend, encoder: Encoder) -> None:
    records = packed(fused, encoder)
    for start in range(0, 120_000, 10_000):
        seeds = range(1_000_000 + start, 1_000_000 + start + 10_000)
        damaged = [mutate_record(records[seed % len(records)], seed) for seed in seeds]
        put_through(program, damaged, "records")
