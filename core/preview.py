"""What a pipeline does to single samples, for people to look at: `python -m ddlp.core.preview`.

It runs in a process of its own, bounded in memory and time, since it decodes whatever it is given.
The argument is the number of the process that it ends with. A request as JSON comes on standard
input; the parameters drawn, or a sheet of the pictures as PNG, go to standard output.
"""

import io
import math
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from pydantic import TypeAdapter

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import DdlpError
from ddlp.core.messages import Message, PreviewSample
from ddlp.core.pipeline import Engine, Pipeline, PipelineSpec
from ddlp.core.process import die_with_parent
from ddlp.core.types import BadPolicy

SIDE = 256
_GAP = 4
_GROUND = 32
_MEMORY_BYTES = 2 << 30
_SECONDS = 60
EXPLAINED = TypeAdapter(list[PreviewSample])


class PreviewRequest(Message):
    """Which samples to look at, as which pipeline, seed and epoch would make them."""

    index_path: Path
    transforms: list[dict[str, Any]]
    samples: list[int]
    seed: int = 0
    epoch: int = 0
    draw: bool = False
    """A sheet of pictures instead of words."""


def explain(request: PreviewRequest) -> list[PreviewSample]:
    """Samples with the parameters that are drawn for them."""
    index = DatasetIndex(request.index_path)
    samples = np.asarray(request.samples, dtype=np.int64)
    engine = Engine(index, _pipeline(request), request.seed)
    heads, labels = index.heads(samples), index.labels(samples)
    return [
        PreviewSample(
            sample=int(sample),
            name=index.name(int(sample)),
            label=int(labels[place]),
            class_name=index.classes[int(labels[place])],
            width=int(heads.width[place]),
            height=int(heads.height[place]),
            steps=steps,
        )
        for place, (sample, steps) in enumerate(
            zip(samples, engine.explain(request.epoch, samples), strict=True)
        )
    ]


def sheet(request: PreviewRequest) -> bytes:
    """The samples as the pipeline makes them, side by side on one PNG; a bad one is left dark."""
    pipeline = _pipeline(request)
    engine = Engine(DatasetIndex(request.index_path), pipeline, request.seed, BadPolicy.FAIL)
    tiles = []
    for sample in request.samples:
        pixels = np.zeros((1, *pipeline.shape), dtype=pipeline.dtype)
        try:
            engine.fill(request.epoch, np.asarray([sample], dtype=np.int64), pixels)
        except DdlpError:
            pixels[:] = 0
        tiles.append(_shown(pixels[0], pipeline))
    made = io.BytesIO()
    _together(tiles).save(made, "PNG")
    return made.getvalue()


def _pipeline(request: PreviewRequest) -> Pipeline:
    return Pipeline.parse(PipelineSpec(transforms=request.transforms))


def _shown(pixels: npt.NDArray[Any], pipeline: Pipeline) -> Image.Image:
    """A tile of at most 256 pixels a side; what is normalised already is brought back to levels."""
    if pipeline.dtype != "uint8" and pipeline.normalize is not None:
        levels = pixels * np.asarray(pipeline.normalize.std) + np.asarray(pipeline.normalize.mean)
        pixels = np.clip(np.rint(levels * 255), 0, 255)
    tile = Image.fromarray(pixels.astype(np.uint8))
    tile.thumbnail((SIDE, SIDE))
    return tile


def _together(tiles: list[Image.Image]) -> Image.Image:
    columns = math.ceil(math.sqrt(len(tiles)))
    rows = math.ceil(len(tiles) / columns)
    width, height = tiles[0].width + _GAP, tiles[0].height + _GAP
    ground = Image.new("RGB", (columns * width + _GAP, rows * height + _GAP), (_GROUND,) * 3)
    for place, tile in enumerate(tiles):
        ground.paste(tile, (_GAP + place % columns * width, _GAP + place // columns * height))
    return ground


def main() -> None:
    """Bound this process, and answer one request."""
    die_with_parent(int(sys.argv[1]))
    # Not RLIMIT_AS: the index and the pixels of a large dataset are mapped, and cost nothing.
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    try:
        request = PreviewRequest.model_validate_json(sys.stdin.buffer.read())
        made = sheet(request) if request.draw else EXPLAINED.dump_json(explain(request))
    except DdlpError as error:
        sys.exit(str(error))
    except MemoryError:
        sys.exit(f"it takes more than {_MEMORY_BYTES >> 20} MiB of memory; ask for smaller samples")
    sys.stdout.buffer.write(made)


if __name__ == "__main__":
    main()
