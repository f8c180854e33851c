"""Addresses that are shown to people."""

import re


def without_password(url: str) -> str:
    """The address with stars for what must not be printed; it need not be a right one."""
    stars = r"\g<1>***"
    hidden = re.sub(r"^([\w+.-]+://[^:/@]*:).*(?=@)", stars, url)
    return re.sub(r"([?&]\w*password=)[^&#]*", stars, hidden)
