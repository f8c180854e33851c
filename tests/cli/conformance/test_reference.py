"""The reference images: of many kinds, always the same, and left alone once they are there."""

from pathlib import Path

from PIL import Image

from ddlp.cli.conformance.reference import IMAGES, write_images


def test_there_are_colour_grey_and_palette_images_in_two_formats(tmp_path: Path) -> None:
    write_images(tmp_path)
    files = sorted(tmp_path.rglob("*.*"))
    assert len(files) == IMAGES
    kinds = set()
    for path in files:
        with Image.open(path) as image:
            kinds.add((image.format, image.mode))
    assert kinds == {("JPEG", "RGB"), ("JPEG", "L"), ("PNG", "RGB"), ("PNG", "P")}


def test_files_that_are_there_keep_their_time_and_broken_ones_are_mended(tmp_path: Path) -> None:
    write_images(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    broken = min(times)
    content = broken.read_bytes()
    broken.write_bytes(b"broken")
    write_images(tmp_path)
    assert broken.read_bytes() == content
    del times[broken]
    assert {path: path.stat().st_mtime_ns for path in times} == times
