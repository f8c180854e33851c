"""What tests of readers start."""

from tests.core.store.s3_server import bucket, s3_client, s3_url

__all__ = ["bucket", "s3_client", "s3_url"]
