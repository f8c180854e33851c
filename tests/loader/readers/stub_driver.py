"""Runs tests again in a process that finds a stub in the place of NVIDIA's driver."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ON_STUB = "DDLP_TEST_ON_STUB_DRIVER"
"""Set in such a process."""


def on_stub() -> bool:
    return ON_STUB in os.environ


def library(folder: Path) -> Path:
    """The folder of a freshly built stub; the test is skipped where it cannot be."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to build the driver's stub with")
    if importlib.util.find_spec("kvikio") is None:
        pytest.skip("KvikIO is not installed")
    source = Path(__file__).with_name("libcuda_stub.c")
    target = folder / "libcuda.so.1"
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, "-o", target, source], check=True)
    return folder


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """In which the stub is found, KvikIO's settings are its own, and no cuFile is configured."""
    usual = {k: v for k, v in os.environ.items() if not k.startswith(("KVIKIO_", "CUFILE_"))}
    return {**usual, "LD_LIBRARY_PATH": str(folder), ON_STUB: "1", **settings}


def run_again(module: str, folder: Path, **settings: str) -> str:
    """Run a module's tests on the stub; gives what was said, and fails where a test did."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    ran = subprocess.run(
        [*command, "-rs", module],
        env=environment(library(folder), **settings),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-3000:]
    return ran.stdout
