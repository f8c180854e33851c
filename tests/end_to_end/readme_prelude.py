# What the loop in the README takes for granted, and an account of what it trained on.
import json
import os
import sys
import time

import torch

torch.set_num_threads(1)
together = "RANK" in os.environ
if together:  # ranks train in step, as DistributedDataParallel makes them
    torch.distributed.init_process_group("gloo")
folder, started, classes = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.chdir(folder)
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, classes)
)
optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
cross_entropy = torch.nn.functional.cross_entropy


def counted(logits, labels):
    """The loss, once the labels are in this rank's account."""
    with open(f"trained-{os.environ.get('RANK', '0')}", "a") as account:
        account.write(json.dumps([started, globals()["epoch"], labels.tolist()]) + "\n")
    time.sleep(0.05)
    if together:
        torch.distributed.barrier()
    return cross_entropy(logits, labels)


torch.nn.functional.cross_entropy = counted
