"""A sample's stored bytes as an image file that any program reads."""

from ddlp.core.dataset.layout import SampleRow
from ddlp.core.image import Kind, backend
from ddlp.core.image.orientation import tagged


def image_file(row: SampleRow, data: bytes) -> bytes:
    """The bytes as they are; raw pixels get the head of a file, and a record becomes a JPEG."""
    if row.kind == Kind.PIXELS:
        return b"P6 %d %d 255\n" % (row.width, row.height) + data
    if row.kind == Kind.RECORD:
        made = backend().record_jpeg(data)
        turned = backend().walk(made).orientation
        return made if turned == row.orientation else tagged(made, row.orientation)
    return data
