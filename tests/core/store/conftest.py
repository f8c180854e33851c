"""What tests of stores start."""

from tests.core.store.s3_server import bucket, s3_client, s3_url
from tests.core.store.serving import batch, root, server

__all__ = ["batch", "bucket", "root", "s3_client", "s3_url", "server"]
