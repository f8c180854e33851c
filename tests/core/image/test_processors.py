"""The kernel makes the same bits in every variant, and on an ARM processor.

ARM is emulated by QEMU, where that and a cross compiler are installed (Debian's packages
gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user-static; make test-arm installs them).
Where libjpeg-turbo for arm64 is unpacked below ARM64_ROOT, decoding is compared too, otherwise all
the rest.
"""

import os
import shutil
import struct
import subprocess
import sysconfig
from pathlib import Path

import pytest

from ddlp.core.image import Backend
from tests.core.image.corpus import KINDS, Encoder

HERE = Path(__file__).parent
KERNEL = HERE.parents[2] / "core/image/c"
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O3", "-ffp-contract=off", "-static"]
WITH_LIBJPEG = ("jpeg_rows.c", "record_jpeg.c", "record_pack.c")


def built(folder: Path, compiler: str, *more: str, decoder: bool = True) -> Path:
    left_out = {"module.c"} if decoder else {"module.c", *WITH_LIBJPEG}
    sources = [path for path in sorted(KERNEL.glob("*.c")) if path.name not in left_out]
    program = folder / f"{compiler}-{decoder}"
    last = ["-DJPEG", "-ljpeg"] if decoder else []
    command = [compiler, *FLAGS, f"-I{KERNEL}", HERE / "digest.c", *sources, *more, *last]
    done = subprocess.run([*command, "-lm", "-o", program], capture_output=True, text=True)
    if done.returncode and ("cannot find" in done.stderr or "jpeglib.h" in done.stderr):
        pytest.skip(f"it cannot be built here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return program


def digest(command: list[str | Path], files: list[bytes]) -> tuple[str, str]:
    """A digest of all that was made, and the name of the variant that made it."""
    records = b"".join(struct.pack("<I", len(data)) + data for data in files)
    ran = subprocess.run(command, input=records, capture_output=True, check=True)
    value, variant = ran.stdout.decode().split()
    return value, variant


def corpus(encoder: Encoder) -> list[bytes]:
    return [encoder.encode(way, *size) for way in KINDS for size in [(1, 1), (97, 61)]]


def packed(fused: Backend, files: list[bytes]) -> list[bytes]:
    made = (fused.pack_record(data, keep_head=False) for data in files)
    records = [record for record in made if record is not None]
    assert len(records) > 10
    return records


def test_every_variant_that_this_processor_can_do(
    tmp_path: Path, encoder: Encoder, fused: Backend
) -> None:
    from ddlp.core.image import _fused

    program, files = built(tmp_path, "cc"), corpus(encoder)
    files += packed(fused, files)
    wanted, _ = digest([program, "portable"], files)
    for name in _fused.variants():
        assert digest([program, name], files) == (wanted, name)


@pytest.mark.arm
def test_on_an_arm_processor(tmp_path: Path, encoder: Encoder, fused: Backend) -> None:
    compiler = shutil.which("aarch64-linux-gnu-gcc")
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("needs the packages gcc-aarch64-linux-gnu and qemu-user-static")
    root = os.environ.get("ARM64_ROOT")
    if root:
        where = Path(root) / "usr"
        arch = "aarch64-linux-gnu"
        paths = [f"-I{where}/include", f"-I{where}/include/{arch}", f"-L{where}/lib/{arch}"]
    else:
        # Only declarations of the decoder are read; the rest of the host's headers must stay out.
        (tmp_path / "include").mkdir()
        for name in ("jpeglib.h", "jmorecfg.h", "jconfig.h"):
            found = [Path("/usr/include") / name]
            found += [Path("/usr/include") / str(sysconfig.get_config_var("MULTIARCH")) / name]
            present = next((path for path in found if path.exists()), None)
            if present is None:
                pytest.skip(f"needs {name} of libjpeg-turbo")
            shutil.copy(present, tmp_path / "include")
        paths = [f"-I{tmp_path}/include"]
    decoder = root is not None
    files = corpus(encoder)
    files = (files if decoder else []) + packed(fused, files)
    here = built(tmp_path, "cc", decoder=decoder)
    there = built(tmp_path, compiler.rpartition("/")[2], *paths, decoder=decoder)
    assert digest([here], files)[0] == digest([emulator, there], files)[0]
