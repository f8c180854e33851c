"""Sends what this host's meters count to a server."""

from ddlp.core.client import Client
from ddlp.core.messages.energy import HostSample
from ddlp.core.meters.host import HostMeters
from ddlp.core.meters.single import OnePerHost, Sampling
from ddlp.core.settings import Settings

_TIMEOUT_S = 5.0


def sample_host(settings: Settings, url: str, key: str | None = None) -> Sampling:
    """A thread, not started yet, that samples this host for a server if no other process does."""

    def send(sample: HostSample) -> None:
        # A connection each: there is one sample in two seconds, and none is left open at the end.
        with Client(url, timeout_s=_TIMEOUT_S, patience_s=0, key=key) as client:
            client.post("/meters", sample)

    return Sampling(OnePerHost(url), lambda: HostMeters(settings), send)
