"""View model of the lines that train on a run."""

from dataclasses import dataclass

_ALONE = """\
import torch
from ddlp.loader import DualLoader

model = ...                                  # yours
optimiser = torch.optim.AdamW(model.parameters())

with DualLoader(run="{run}", url="{url}"{ranks}, start=0) as loader:
    for epoch in range(loader.epoch, loader.epochs):
        for images, labels in loader:        # one pass is one epoch
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
"""


@dataclass(frozen=True)
class TrainingView:
    """How to train on a run, ready to be copied."""

    code: str
    words: str
    check: str
    """The command that shows how the run stands."""


def training_view(run: str, url: str, world_size: int, keys: bool = False) -> TrainingView:
    """The lines for one rank; where there are several, torchrun's variables tell them apart."""
    ranks, words = "", 'On a GPU say device="cuda:0": batches then arrive there.'
    if world_size > 1:
        ranks = f', rank=int(os.environ["RANK"]), world_size={world_size}'
        words = (
            f"Start it on {world_size} ranks, such as with torchrun --nproc-per-node={world_size}."
        )
    if keys:
        words += " The server asks for a key: put one of scope work into DDLP_KEY."
    code = _ALONE.format(run=run, url=url.rstrip("/"), ranks=ranks)
    if world_size > 1:
        code = "import os\n" + code
    return TrainingView(code, words, f"ddlp run show {run}")
