"""The loop of the README as torchrun starts it; each rank writes down what it received, at once."""

import json
import os
import sys
from pathlib import Path

import torch.distributed as dist

from ddlp.loader import DualLoader


def main(run: str, url: str, out: Path, steps: int) -> None:
    """Train one epoch and then so many steps, and save a state there."""
    dist.init_process_group("gloo")
    with DualLoader(run, url) as loader, open(out / f"{loader.rank}", "w", buffering=1) as account:
        step = 0
        while loader.epochs is None or loader.epoch < loader.epochs:
            epoch = loader.epoch
            for batch in loader.batches():
                account.write(json.dumps([epoch, batch.samples.tolist()]) + "\n")
                dist.barrier()
                step += epoch > 0
                if step == steps:
                    if loader.rank == 0:
                        (out / "state").write_text(json.dumps(loader.state_dict()))
                    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
