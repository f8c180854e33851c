"""The kernel under the address and undefined-behaviour sanitizers, over good and damaged files."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.core.image.corpus import KINDS, Encoder
from tests.core.image.mutations import mutate

KERNEL = Path(__file__).parents[3] / "core/image/c"
FLAGS = [
    "-std=c11",
    "-D_GNU_SOURCE",
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


def put_through(program: Path, files: list[bytes]) -> tuple[int, int]:
    """How many views were decoded and how many refused; fails on the first complaint."""
    records = b"".join(struct.pack("<I", len(data)) + data for data in files)
    ran = subprocess.run([program], input=records, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()[-4000:]
    decoded, refused = ran.stdout.split()
    return int(decoded), int(refused)


def originals(encoder: Encoder) -> list[bytes]:
    return [encoder.encode(way, *size) for way in KINDS for size in [(1, 1), (17, 33), (97, 61)]]


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
