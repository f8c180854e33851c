"""Builds the kernel's module with the address and undefined-behaviour sanitizers, and runs it."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNEL = HERE.parents[2] / "core/image/c"
FLAGS = [
    "-std=c11",
    "-D_GNU_SOURCE",
    "-DEXACT_BUFFERS",
    "-O1",
    "-g",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    *("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wvla", "-Werror"),
]
FAILING = ["-Dcalloc=failing_calloc", "-Dposix_memalign=failing_posix_memalign"]
_MOST_MB = 1 << 10


class Sanitized:
    """The module, and inputs to begin with: files that mutations are made of."""

    def __init__(self, folder: Path, jpegs: list[bytes]) -> None:
        self._module, self._inputs = folder / "_fused.so", folder / "inputs"
        self._inputs.write_bytes(pickle.dumps(jpegs))
        self._runtime = _build(folder, self._module)

    def fuzz(self, names: list[str], seeds: range) -> dict[str, Counter[str]]:
        """What became of the calls of each function; fails on the first complaint."""
        where = self._module.with_name("at")
        ran = subprocess.run(
            [
                *(sys.executable, "-m", "tests.core.image.fuzzing", self._module, self._inputs),
                *(where, str(seeds.start), str(seeds.stop), *names),
            ],
            env=self._environment(),
            cwd=HERE.parents[2],
            capture_output=True,
        )
        last = where.read_text().strip() if where.exists() else "nothing"
        assert ran.returncode == 0, f"{last}: {ran.stderr.decode(errors='replace')[-4000:]}"
        return {name: Counter(became) for name, became in json.loads(ran.stdout).items()}

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "LD_PRELOAD": self._runtime,
            # Python keeps small objects in arenas of its own, in which nothing is seen.
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:"
            f"max_allocation_size_mb={_MOST_MB}:quarantine_size_mb=32",
        }


def _build(folder: Path, module: Path) -> str:
    """Compile it; gives the sanitizer's library, which must be loaded before all others."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    failing = folder / "failing.o"
    include = f"-I{sysconfig.get_path('include')}"
    _run([compiler, "-O1", "-g", "-fPIC", "-c", HERE / "failing.c", "-o", failing])
    sources = sorted(KERNEL.glob("*.c"))
    libraries = ["-ljpeg", "-lm"]
    _run([compiler, *FLAGS, *FAILING, include, "-o", module, *sources, failing, *libraries])
    told = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    )
    runtime = told.stdout.strip()
    if not Path(runtime).is_absolute():
        pytest.skip("the compiler's sanitizer is no library that can be loaded first")
    return runtime


def _run(command: list[str | Path]) -> None:
    built = subprocess.run(command, capture_output=True, text=True)
    missing = ("jpeglib.h", "Python.h", "cannot find")
    if built.returncode and any(what in built.stderr for what in missing):
        pytest.skip(f"it cannot be built here: {built.stderr[-300:]}")
    assert built.returncode == 0, built.stderr
