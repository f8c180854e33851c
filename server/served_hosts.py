"""At which hosts devices may serve their stores: trainers go there with what they were given."""

from urllib.parse import urlsplit

from ddlp.core.errors import NotAllowed
from ddlp.core.messages import DeviceRegister
from ddlp.core.settings import LOOPBACK, Settings


def check(settings: Settings, body: DeviceRegister, address: str) -> None:
    """Refuse a device that says it serves its store at a host that is not its own."""
    if body.serves is None:
        return
    host = (urlsplit(body.serves).hostname or "").lower()
    if host not in _allowed(settings, body, address):
        raise NotAllowed(
            f"device {body.name} registers from {address or 'nowhere'} as host {body.host}, and "
            f"would serve its store at {host}; name that in DDLP_SERVE_HOSTS if it may, or have "
            "the worker use its own name or address in DDLP_SERVE_STORE"
        )


def _allowed(settings: Settings, body: DeviceRegister, address: str) -> frozenset[str]:
    if settings.serve_hosts:
        return frozenset(host.lower() for host in settings.serve_hosts)
    own = {address, body.host.lower()}
    return frozenset(own | LOOPBACK if address in LOOPBACK else own)
