"""Two processes that torchrun starts share the epochs of a run, step by step."""

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

from ddlp.core.client import Client
from tests.conftest import UpProcess, wait_until
from tests.end_to_end import ddp_script
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import new_run

LOOPBACK = ("--standalone", "--local-addr=127.0.0.1")
EPOCHS = 2


def torchrun(*words: str | Path) -> None:
    """Run the training script once a rank; what it said is shown when it fails."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    launcher = (sys.executable, "-m", "torch.distributed.run", *LOOPBACK, "--nproc-per-node=2")
    done = subprocess.run(
        [*launcher, ddp_script.__file__, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def accounts(folder: Path) -> list[dict[str, Any]]:
    """What each rank wrote down."""
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_two_ranks_train_in_step_on_every_sample_once(
    up: UpProcess, api: Client, tmp_path: Path
) -> None:
    run = new_run(api, world_size=2, epochs=EPOCHS)
    torchrun(run, up.url, tmp_path)
    first, second = accounts(tmp_path)
    assert first["length"] == second["length"] == 8
    for epoch in range(EPOCHS):
        mine, other = first["epochs"][epoch], second["epochs"][epoch]
        assert len(mine["steps"]) == len(other["steps"]) == 8
        assert Counter(chain(*mine["steps"], *other["steps"])) == ONCE
        pairs = zip(mine["steps"], other["steps"], strict=True)
        assert [len(a) + len(b) for a, b in pairs] == mine["sums"] == other["sums"]
    assert first["weights"] == second["weights"]
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    for epoch in range(EPOCHS):
        assert api.get(f"/runs/{run}/epochs/{epoch}/certificate")["exactly_once"]
