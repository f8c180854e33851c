"""A process that samples if it is its turn, as a worker or a rank does; started by tests."""

import json
import os
import socket
import sys
import threading
from pathlib import Path

from ddlp.core.messages.energy import HostSample
from ddlp.core.meters import HostMeters, OnePerHost, Sampling
from ddlp.core.settings import Settings


class Telling(OnePerHost):
    """Tells when it tried in vain."""

    def __init__(self, folder: Path, channel: socket.socket) -> None:
        super().__init__(str(folder))
        self._channel = channel

    def try_take(self) -> bool:
        """As it is, and told."""
        taken = super().try_take()
        if not taken:
            self._channel.send(json.dumps({"pid": os.getpid()}).encode())
        return taken


def main(receiver: str, folder: Path) -> None:
    """Send samples to a socket until the process is killed."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    channel.connect(receiver)

    def send(sample: HostSample) -> None:
        body = {"pid": os.getpid(), "sample": sample.model_dump(mode="json")}
        channel.send(json.dumps(body).encode())

    settings = Settings(powercap=folder / "powercap")
    sampling = Sampling(
        Telling(folder, channel), lambda: HostMeters(settings, nvml=lambda: None), send, 0.1
    )
    sampling.start()
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
