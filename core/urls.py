"""Addresses that are shown to people, or given where a path is meant."""

import ipaddress
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from ddlp.core.errors import InvalidInput

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:)(/+)(.*)", re.DOTALL)


_HOST = r"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)"
SERVED = rf"^https?://{_HOST}(?::[0-9]{{1,5}})?(?:/[A-Za-z0-9._~/-]*)?$"
"""The address of a served store: http or https, a host, and nothing that could mean more."""

_NUMBER = re.compile(r"(?:0[xX][0-9A-Fa-f]*|[0-9]+)")
_METADATA = frozenset({"metadata", "metadata.google.internal", "instance-data"})
_OWN_SECRETS = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200")))
"""What clouds call the host that tells a machine its own secrets."""


def check_served(url: str) -> str:
    """The address of a store, unless it leads to what a store cannot be."""
    if not re.fullmatch(SERVED, url):
        raise ValueError(f"{url} is not the plain address of a host that serves a store")
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError as error:  # such as [00]
        raise ValueError(f"{url} is not the address of a host that serves a store") from error
    if host in _METADATA or (_NUMBER.fullmatch(host.rpartition(".")[2]) and not _is_address(host)):
        raise ValueError(f"{host} is not a host that serves a store")
    if _is_address(host):
        found = ipaddress.ip_address(host)
        mapped = getattr(found, "ipv4_mapped", None) or found
        if mapped.is_link_local or mapped.is_multicast or mapped.is_unspecified:
            raise ValueError(f"{host} is not the address of a host that serves a store")
        if mapped in _OWN_SECRETS:
            raise ValueError(f"{host} is where a cloud tells a machine its own secrets")
    return url


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def without_password(url: str) -> str:
    """The address with stars for what must not be printed; it need not be a right one."""
    stars = r"\g<1>***"
    hidden = re.sub(r"^([\w+.-]+://[^:/@]*:).*(?=@)", stars, url)
    return re.sub(r"([?&]\w*password=)[^&#]*", stars, hidden)


def refuse_address(place: str | Path) -> None:
    """Refuse an address, such as s3://bucket/photos, where the path of a folder or file is meant.

    A Path has lost one of the slashes; it is taken for a path if its first folder is there.
    """
    found = _ADDRESS.match(str(place))
    if found is None:
        return
    scheme, slashes, rest = found.groups()
    if slashes == "/" and os.path.lexists(scheme):
        return
    if scheme.lower() == "file:":
        raise InvalidInput(f"{scheme}///{rest} is an address, not a path; leave out {scheme}//")
    raise InvalidInput(
        f"{without_password(f'{scheme}//{rest}')} is an address, not a folder: DDLP reads and "
        "writes datasets as files; mount it or copy it to a folder first, then give the path of "
        "that folder"
    )
