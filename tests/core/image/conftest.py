"""Both engines, and files of every kind."""

from collections.abc import Iterator

import pytest

from ddlp.core.image import Backend
from ddlp.core.image.reference import Reference
from tests.core.image.corpus import Encoder


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return Encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="session")
def fused() -> Backend:
    """The kernel; tests of it are skipped, with the reason, where it was not built."""
    try:
        from ddlp.core.image.fused import Fused
    except ImportError as error:
        pytest.skip(f"the kernel was not built: {error}")
    return Fused()


@pytest.fixture(scope="session")
def reference() -> Backend:
    return Reference()


@pytest.fixture(params=["portable", "avx2", "avx2-pdep"])
def variant(request: pytest.FixtureRequest, fused: Backend) -> Iterator[str]:
    """The kernel in each variant that this processor can do."""
    from ddlp.core.image import _fused

    if request.param not in _fused.variants():
        pytest.skip(f"this processor cannot do {request.param}")
    assert _fused.variant(request.param) == request.param
    yield str(request.param)
    _fused.variant(None)
