"""`DualLoader` as what training frameworks iterate over: all get what a plain loop gets."""

import importlib
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ddlp.core.client import Client
from ddlp.loader import DualLoader
from tests.conftest import SMALL_PIPELINE, UpProcess, make_images, wait_until
from tests.end_to_end.trainer import new_run
from tests.torchvision_reference import load_torchvision

EPOCHS = 3
STEPS = 5
MIDDLE = STEPS + 3
"""So many steps end in the middle of the second epoch."""
Print = tuple[int, tuple[int, ...]]
"""What tells a batch from others: a checksum of its pixels, and its labels."""

lightning_says = pytest.mark.filterwarnings(
    r"ignore:`isinstance\(treespec, LeafSpec\)` is deprecated:FutureWarning",
    "ignore:Checkpoint directory .* exists and is not empty:UserWarning",
)


@pytest.fixture(scope="module")
def fruit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("data") / "fruit", STEPS * 8 - 1)


@pytest.fixture
def loader(fruit: Path) -> Iterator[DualLoader]:
    with local(fruit) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain(fruit: Path) -> list[Print]:
    """What a plain loop gets in all epochs."""
    with local(fruit) as opened:
        return [fingerprint(*batch) for _ in range(EPOCHS) for batch in opened]


@pytest.fixture(scope="module")
def lightning() -> Any:
    # It imports torchvision where that is installed.
    with suppress(ModuleNotFoundError):
        load_torchvision()
    return importlib.import_module("pytorch_lightning")


@pytest.fixture
def accelerate() -> Iterator[Any]:
    package = importlib.import_module("accelerate")
    yield package
    package.state.AcceleratorState._reset_state(reset_partial_state=True)


def local(fruit: Path) -> DualLoader:
    return DualLoader.local(
        fruit, pipeline=SMALL_PIPELINE, batch_size=8, epochs=EPOCHS, strategy="cpu", workers=1
    )


def fingerprint(images: torch.Tensor, labels: torch.Tensor) -> Print:
    return zlib.crc32(images.contiguous().numpy()), tuple(labels.tolist())


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 3))


def lightning_module(lightning: Any) -> Any:
    """A model that remembers the batches it was trained on."""

    class Remembering(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()
            self.seen: list[Print] = []

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            images, labels = batch
            self.seen.append(fingerprint(images, labels))
            return nn.functional.cross_entropy(self.network(images), labels)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    return Remembering()


def fit(
    lightning: Any, loader: DualLoader, *callbacks: Any, epochs: int = EPOCHS, **options: Any
) -> list[Print]:
    """Train with Lightning; the batches that it trained on."""
    module = lightning_module(lightning)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=epochs,
        callbacks=list(callbacks),
        enable_checkpointing=bool(callbacks),
        enable_model_summary=False,
        enable_progress_bar=False,
        logger=False,
    )
    trainer.fit(module, train_dataloaders=loader, **options)
    seen: list[Print] = module.seen
    return seen


def checkpoints(lightning: Any, folder: Path, **when: int) -> Any:
    return lightning.callbacks.ModelCheckpoint(folder, save_top_k=-1, **when)


class Accelerated:
    """A model and a loader as accelerate prepares them."""

    def __init__(self, accelerate: Any, loader: DualLoader) -> None:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.accelerator = accelerate.Accelerator(cpu=True)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(model, optimizer, loader)
        self.accelerator.register_for_checkpointing(self.loader)

    def train(self, steps: int | None = None) -> list[Print]:
        """Train all epochs, or so many steps; the batches that it trained on."""
        seen: list[Print] = []
        while self.loader.epoch < self.loader.epochs:
            for images, labels in self.loader:
                self.optimizer.zero_grad()
                loss = nn.functional.cross_entropy(self.model(images), labels)
                self.accelerator.backward(loss)
                self.optimizer.step()
                seen.append(fingerprint(images, labels))
                if len(seen) == steps:
                    return seen
        return seen


def test_a_plain_loop_gets_every_image_in_every_epoch_and_learns(loader: DualLoader) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    before = [parameter.clone() for parameter in model.parameters()]
    epochs = []
    for _ in range(loader.epochs):
        labels_seen: Counter[int] = Counter()
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            labels_seen.update(labels.tolist())
        epochs.append(labels_seen)
    assert epochs == [{0: 13, 1: 13, 2: 13}] * EPOCHS
    after = model.parameters()
    assert not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_epochs_differ_and_a_seed_repeats_them(plain: list[Print], fruit: Path) -> None:
    assert len(plain) == len(set(plain)) == STEPS * EPOCHS
    with local(fruit) as again:
        assert [fingerprint(*batch) for _ in range(EPOCHS) for batch in again] == plain


@lightning_says
def test_lightning_trains_on_what_a_plain_loop_gets(
    lightning: Any, loader: DualLoader, plain: list[Print]
) -> None:
    assert fit(lightning, loader) == plain


@lightning_says
def test_lightning_goes_on_in_the_middle_of_an_epoch(
    lightning: Any, fruit: Path, plain: list[Print], tmp_path: Path
) -> None:
    often = checkpoints(lightning, tmp_path, every_n_train_steps=MIDDLE)
    with local(fruit) as first:
        fit(lightning, first, often, epochs=2)
    [saved] = tmp_path.iterdir()
    with local(fruit) as second:
        rest = fit(lightning, second, often, ckpt_path=saved)
    assert rest == plain[MIDDLE:]


@lightning_says
def test_lightning_goes_on_after_an_epoch_from_the_state_in_its_checkpoint(
    lightning: Any, fruit: Path, plain: list[Print], tmp_path: Path
) -> None:
    each_epoch = checkpoints(lightning, tmp_path, every_n_epochs=1)
    with local(fruit) as first:
        fit(lightning, first, each_epoch, epochs=1)
    [saved] = tmp_path.iterdir()
    # Lightning hands a state back in the middle of an epoch only.
    [state] = torch.load(saved)["loops"]["fit_loop"]["state_dict"]["combined_loader"]
    with local(fruit) as second:
        second.load_state_dict(state)
        rest = fit(lightning, second, each_epoch, ckpt_path=saved)
    assert rest == plain[STEPS:]


@lightning_says
def test_the_epochs_that_lightning_trained_are_complete_on_the_server(
    lightning: Any, up: UpProcess, api: Client
) -> None:
    run = new_run(api, epochs=2)
    with DualLoader(run, up.url) as loader:
        assert len(fit(lightning, loader, epochs=2)) == 32
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed", timeout_s=5)


def test_accelerate_trains_on_what_a_plain_loop_gets(
    accelerate: Any, loader: DualLoader, plain: list[Print]
) -> None:
    assert Accelerated(accelerate, loader).train() == plain


def test_accelerate_goes_on_in_the_middle_of_an_epoch(
    accelerate: Any, fruit: Path, plain: list[Print], tmp_path: Path
) -> None:
    with local(fruit) as loader:
        first = Accelerated(accelerate, loader)
        first.train(MIDDLE)
        first.accelerator.save_state(tmp_path)
    with local(fruit) as loader:
        second = Accelerated(accelerate, loader)
        second.accelerator.load_state(tmp_path)
        assert second.train() == plain[MIDDLE:]
