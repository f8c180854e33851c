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


@pytest.fixture(params=["vectors", "portable"])
def variant(request: pytest.FixtureRequest, fused: Backend) -> Iterator[str]:
    """The kernel with and without the processor's vector instructions."""
    from ddlp.core.image import _fused

    _fused.vectors(request.param == "vectors")
    yield str(request.param)
    _fused.vectors(True)
