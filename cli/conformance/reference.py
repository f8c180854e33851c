"""The reference: a small dataset of many kinds of images, and what this host makes of it."""

import hashlib
import io
import shutil
import uuid
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ddlp.cli.scan import follow_scan
from ddlp.core.batchfile import Array, unseal
from ddlp.core.client import Client
from ddlp.core.errors import DdlpError, InvalidInput, NotAllowed, NotFound
from ddlp.core.messages import Lease, WorkSpec
from ddlp.core.produce import Producer
from ddlp.core.store import FolderStore, path_of
from ddlp.workers.indexes import Indexes

IMAGES = 60
BATCH_SIZE = 5
PIPELINE = "ddlp-conformance"
TRANSFORMS: list[dict[str, Any]] = [
    {"name": "random-resized-crop", "size": 64},
    {"name": "flip"},
    {"name": "colour-jitter", "brightness": 0.4, "contrast": 0.4, "saturation": 0.4},
    {"name": "normalize"},
]
_CLASSES = ("bars", "checks", "ramps")
_PERIOD = 37


def write_images(folder: Path) -> None:
    """Colour, grey and palette images as JPEG and PNG; one that is there already is left alone.

    Times of change are part of a dataset's version: files that stay keep it the same.
    """
    for number in range(IMAGES):
        image, kind, options = _image(number)
        path = folder / _CLASSES[number % len(_CLASSES)] / f"{number:03d}.{kind}"
        raw = io.BytesIO()
        image.save(raw, "JPEG" if kind == "jpg" else "PNG", **options)
        if path.is_file() and path.read_bytes() == raw.getvalue():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw.getvalue())


def _check_own(folder: Path) -> None:
    """Refuse a folder with anything in it that is not the reference's."""
    others = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    foreign = sorted(set(others) - set(_CLASSES))
    if foreign:
        raise InvalidInput(
            f"{folder} has {foreign[0]} in it, which is not of the reference; give a folder of its "
            "own, or an empty one, with --data"
        )


def _image(number: int) -> tuple[Image.Image, str, dict[str, Any]]:
    width, height = 90 + number * 7 % 61, 80 + number * 11 % 53
    y, x = np.mgrid[:height, :width]
    red = (x * (number + 3)) % 256
    green = ((x // 9 + y // 7) % 2) * 200 + number % 50
    blue = (x * y + number * _PERIOD) % 256
    image = Image.fromarray(np.stack([red, green, blue], axis=-1).astype(np.uint8))
    match number % 6:
        case 0:
            return image, "png", {}
        case 1:
            return image.convert("L"), "jpg", {"quality": 90}
        case 2:
            return image.quantize(32), "png", {}
        case 3:
            return image, "jpg", {"quality": 75, "progressive": True}
        case _:
            return image, "jpg", {"quality": 85, "subsampling": number % 3}


def add_dataset(client: Client, data: Path) -> str:
    """Write the images and have the server know them; its name."""
    folder = data.absolute()
    fresh = not folder.exists()
    _check_own(folder)
    name = f"ddlp-conformance-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
    try:
        write_images(folder)
    except OSError as error:
        raise InvalidInput(
            f"the reference images cannot be written to {folder} ({error.strerror}); give a folder "
            "that the server and the device may read with --data"
        ) from error
    try:
        client.get(f"/datasets/{name}")
    except NotFound:
        try:
            _register(client, folder, name)
        except DdlpError:
            if fresh:  # nothing is left behind where it is of no use
                shutil.rmtree(folder)
            raise
    info = follow_scan(client, name)
    if info["samples"] != IMAGES:
        raise InvalidInput(
            f"the server finds {info['samples']} images in {folder}, not {IMAGES}; have it forget "
            f"them (ddlp dataset delete {name}), and give an empty folder with --data"
        )
    return name


def _register(client: Client, folder: Path, name: str) -> None:
    try:
        client.post("/datasets", {"uri": str(folder), "name": name}, once=True)
    except NotAllowed as error:
        raise NotAllowed(f"{error}; or name another folder with --data") from error


class Host:
    """This host as a producer of the same run, with a store of its own."""

    def __init__(self, client: Client, run: uuid.UUID, scratch: Path) -> None:
        spec = WorkSpec.model_validate(client.get(f"/runs/{run}/work"))
        spec = Indexes(client, scratch / "indexes", {}).local(spec)
        self._run, self._plan = run, spec.plan
        self._producer = Producer(spec, FolderStore(scratch / "store"), "reference")

    def make(self, epoch: int, index: int) -> dict[str, Array]:
        """The tensors of a batch as this host makes them."""
        places = self._plan.whole.places(index)
        lease = Lease(run=self._run, epoch=epoch, index=index, token=1, places=places)
        path = path_of(self._producer.make(lease).location)
        _, arrays = unseal(memoryview(path.read_bytes()))
        path.unlink()
        return arrays
