"""A device beside those of `ddlp up`, as a user starts one on another host."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.conftest import UpProcess, wait_until


class DeviceWorker:
    """A real `ddlp worker`, with the settings of a stack and a few of its own."""

    def __init__(
        self,
        stack: UpProcess,
        name: str,
        prong: str = "csd",
        variables: Mapping[str, str] | None = None,
        **settings: str,
    ) -> None:
        self.name = name
        self._stack = stack
        raw = Path(f"/proc/{stack.children()['serve']}/environ").read_bytes().decode().split("\0")
        environment = dict(entry.split("=", 1) for entry in raw if "=" in entry)
        environment |= {f"DDLP_{key.upper()}": value for key, value in settings.items()}
        environment |= variables or {}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ddlp.cli", "worker", "--prong", prong, "--name", name],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        wait_until(self.is_live, 30)

    def is_live(self) -> bool:
        """Whether the server counts on it."""
        with self._stack.client() as client:
            return any(
                device["live"] for device in client.get("/devices") if device["name"] == self.name
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """End it as its owner does."""
        self.process.terminate()
        self.process.wait(30)
