"""The container files are valid, keep to loopback, and their health checks tell well from ill."""

import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis import Redis
from redis.exceptions import AuthenticationError

from ddlp.cli.embedded_redis import redis_command
from tests.conftest import wait_until

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def run(*command: str | Path) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_file_follows_the_specification() -> None:
    run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml")


def test_dockerfile_passes_hadolint() -> None:
    run(BIN / "hadolint", "Dockerfile")


def test_image_runs_as_an_ordinary_user() -> None:
    users = re.findall(r"^USER (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert users
    assert users[-1] not in {"root", "0"}


def test_services() -> None:
    assert set(SERVICES) == {"postgres", "redis", "web", "cpu-worker", "csd-worker"}


def test_an_emulated_csd_starts_only_if_asked_for() -> None:
    profiles = {name: service.get("profiles") for name, service in SERVICES.items()}
    assert {name: found for name, found in profiles.items() if found} == {"csd-worker": ["csd"]}


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_published_on_loopback_only(name: str) -> None:
    service = SERVICES[name]
    assert "network_mode" not in service
    for port in service.get("ports", []):
        assert isinstance(port, str)
        assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_health_check(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"]


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_waits_for_must_be_healthy(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        assert other in SERVICES
        assert how == {"condition": "service_healthy"}


def test_named_volumes_are_declared() -> None:
    used = {
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if not volume.startswith(".")
    }
    assert used == set(COMPOSE["volumes"])


def test_datasets_are_mounted_read_only() -> None:
    for name in ("web", "cpu-worker", "csd-worker"):
        assert "./data:/data:ro" in SERVICES[name]["volumes"]
        assert SERVICES[name]["environment"]["DDLP_DATASET_ROOTS"] == "/data"


def test_no_secret_has_a_default() -> None:
    compose, example = (ROOT / "docker-compose.yml").read_text(), ROOT / ".env.example"
    found = re.findall(r"\$\{(\w+_PASSWORD)(.*?)\}", compose)
    assert {name for name, _ in found} == {"POSTGRES_PASSWORD", "REDIS_PASSWORD"}
    for name, rest in found:
        assert rest.startswith(":?")
        assert f"\n{name}=\n" in example.read_text()


def test_the_server_asks_for_keys_and_nothing_unsafe_is_switched_on() -> None:
    environment = SERVICES["web"]["environment"]
    assert environment["DDLP_KEYS"] == "required"
    assert not any("UNSAFE" in name for service in SERVICES.values() for name in service)
    assert "UNSAFE" not in (ROOT / "docker-compose.yml").read_text()
    files = {SERVICES[name]["environment"]["DDLP_KEY_FILE"] for name in ("web", "cpu-worker")}
    [place] = {Path(file).parent for file in files}
    assert any(volume.endswith(f":{place}") for volume in SERVICES["web"]["volumes"])


def test_the_broker_asks_for_the_password(tmp_path: Path) -> None:
    shell, option, command = SERVICES["redis"]["command"]
    [server, *_], url = redis_command(tmp_path)
    where = url.removeprefix("unix://")
    own = f"exec {server} - --port 0 --unixsocket {where} --dir {tmp_path}"
    command = command.replace("$$", "$").replace("exec valkey-server -", own)
    secret = {"REDIS_PASSWORD": "s3cret"}
    with subprocess.Popen([shell, option, command], env=os.environ | secret) as process:
        try:
            wait_until(Path(where).exists)
            with Redis.from_url(url) as stranger, pytest.raises(AuthenticationError):
                stranger.ping()
            with Redis.from_url(url, password="s3cret") as known:
                assert known.ping()
                assert known.config_get("proto-max-bulk-len")["proto-max-bulk-len"] == str(1 << 20)
            shown = Path(f"/proc/{process.pid}/cmdline").read_text()
            assert "s3cret" not in shown
        finally:
            process.terminate()


def test_every_packaged_folder_reaches_the_build() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = {path.split("/")[0] for path in project["tool"]["setuptools"]["package-dir"].values()}
    let_in = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    assert {f"{folder}/" for folder in folders} <= let_in
    assert {"LICENSE", "README.md", "constraints.txt", "pyproject.toml"} <= let_in


@contextmanager
def server(answers: dict[str, object]) -> Iterator[str]:
    """Answers GET with JSON by path, and with 404 elsewhere."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in answers else 404)
            self.end_headers()
            self.wfile.write(json.dumps(answers.get(self.path)).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}"
        finally:
            http.shutdown()
            thread.join()


def check(service: str, url: str) -> int:
    """Exit status of a service's health check, asked of a server elsewhere."""
    kind, python, option, code = SERVICES[service]["healthcheck"]["test"]
    assert (kind, python, option) == ("CMD", "python", "-c")
    environment = {**SERVICES[service]["environment"], "DDLP_URL": url}
    environment["DDLP_KEY_FILE"] = str(ROOT / "no-key-file")
    code = code.replace("http://127.0.0.1:8000", url)
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env={**os.environ, **environment}, stderr=subprocess.DEVNULL
    ).returncode


def test_web_is_healthy_when_it_answers() -> None:
    with server({"/readyz": {"status": "ok"}}) as url:
        assert check("web", url) == 0
    with server({}) as url:
        assert check("web", url) != 0
    assert check("web", url) != 0  # nobody listens any more


@pytest.mark.parametrize("service", ["cpu-worker", "csd-worker"])
@pytest.mark.parametrize(
    ("mine", "others", "healthy"),
    [(True, False, True), (False, True, False), (None, True, False)],
    ids=["live", "dead", "unknown"],
)
def test_worker_is_healthy_when_the_server_sees_it_live(
    service: str, mine: bool | None, others: bool, healthy: bool
) -> None:
    devices = [{"name": "another", "live": others}]
    if mine is not None:
        devices.append({"name": SERVICES[service]["environment"]["DDLP_DEVICE_NAME"], "live": mine})
    with server({"/api/v1/devices": devices}) as url:
        assert (check(service, url) == 0) is healthy
