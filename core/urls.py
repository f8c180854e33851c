"""Addresses that are shown to people, or given where a path is meant."""

import os
import re
from pathlib import Path

from ddlp.core.errors import InvalidInput

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:)(/+)(.*)", re.DOTALL)


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
