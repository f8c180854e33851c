"""Addresses of static files that change with their content, so that browsers may keep them."""

import hashlib
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"


@cache
def static_url(name: str) -> str:
    """Where a file of `static/` is served; a new version has a new address."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:10]
    return f"/static/{name}?v={digest}"
