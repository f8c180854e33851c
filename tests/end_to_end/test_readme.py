"""The loop in the README, as it stands there: under python and torchrun, after any kill."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from ddlp.core.client import Client
from tests.conftest import SMALL_PIPELINE, UpProcess, add_dataset, wait_until
from tests.end_to_end.harm import kill, pool
from tests.end_to_end.trainer import new_run

ROOT = Path(__file__).parent.parent.parent
CLASSES, BATCH, EPOCHS = 48, 4, 3


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpProcess]:
    """A stack over images each of which has a label of its own."""
    images = tmp_path_factory.mktemp("data") / "each"
    for number in range(CLASSES):
        folder = images / f"{number:02d}"
        folder.mkdir(parents=True)
        Image.new("RGB", (40, 40), (5 * number, 255 - 5 * number, 90)).save(folder / "a.jpg")
    with UpProcess(tmp_path_factory.mktemp("stack"), [images], cpu_workers="2") as running:
        with running.client() as client:
            add_dataset(client, images, "each")
            client.post("/pipelines", {"name": "small", **SMALL_PIPELINE})
        yield running


class Script:
    """The README's loop as a script, started once and again."""

    def __init__(self, stack: UpProcess, folder: Path, run: str, ranks: int) -> None:
        self.stack, self.folder, self.ranks = stack, folder, ranks
        [loop] = re.findall(r"```python\n(from ddlp.loader.*?)```", _readme(), re.DOTALL)
        assert '"photos-1"' in loop
        prelude = (Path(__file__).parent / "readme_prelude.py").read_text()
        self.path = folder / "train.py"
        self.path.write_text(prelude + loop.replace('"photos-1"', repr(run)))
        self.starts = 0

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, under torchrun where it has several ranks."""
        self.starts += 1
        launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={self.ranks}", "--standalone"]
        arguments = [str(self.path), str(self.folder), str(self.starts), str(CLASSES)]
        return subprocess.Popen(
            [sys.executable, *(launcher if self.ranks > 1 else []), *arguments],
            env={**os.environ, "DDLP_URL": self.stack.url},
        )

    def trained(self) -> dict[int, dict[str, list[int]]]:
        """Labels that were trained on, by epoch and start."""
        found: dict[int, dict[str, list[int]]] = {}
        for path in self.folder.glob("trained-*"):
            for line in path.read_text().splitlines():
                started, epoch, labels = json.loads(line)
                found.setdefault(epoch, {}).setdefault(started, []).extend(labels)
        return found

    def steps(self) -> int:
        """Steps that all ranks together have taken since the last start."""
        mine = (starts.get(str(self.starts), []) for starts in self.trained().values())
        return sum(map(len, mine)) // BATCH


def _readme() -> str:
    return (ROOT / "README.md").read_text()


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a launcher and the ranks that it started."""
    kill(process.pid, *pool(process.pid))
    process.wait(30)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_loop_trains_on_each_sample_once_an_epoch_whatever_is_killed(
    stack: UpProcess, tmp_path: Path, ranks: int
) -> None:
    with stack.client() as client:
        run = new_run(
            client, dataset="each", batch_size=BATCH, epochs=EPOCHS, world_size=None, strategy="wrr"
        )
        script = Script(stack, tmp_path, run, ranks)
        rounds = CLASSES // BATCH
        for steps, server_too in ((rounds // 2, False), (rounds + rounds // 2, True)):
            process = script.start()
            wait_until(lambda steps=steps: script.steps() >= steps, 180.0)
            if server_too:
                kill(stack.children()["serve"])
            end(process)
        process = script.start()
        wait_until(lambda: script.steps() >= 2, 60.0)
        kill(stack.children()["serve"])  # under way: it goes on by itself
        assert process.wait(120) == 0
        check(client, run, script)
        assert script.start().wait(60) == 0, "once more, with nothing left to do"
    assert (tmp_path / "checkpoint.pt").exists()


def check(client: Client, run: str, script: Script) -> None:
    """The start that ended an epoch trained on all of it; those before it were killed in it."""
    trained = script.trained()
    assert sorted(trained) == list(range(EPOCHS))
    for epoch, starts in trained.items():
        last = max(starts, key=int)
        assert Counter(starts[last]) == dict.fromkeys(range(CLASSES), 1), f"epoch {epoch}"
    assert len(trained[0]) == 2, "it was begun again without a checkpoint"
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    proof = client.get(f"/runs/{run}/verify")
    assert (proof["exactly_once"], proof["unbroken"]) == (True, True), proof
