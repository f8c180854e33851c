"""CPU seconds of a process and of all that descend from it, the ended ones included."""

import os
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def of_tree(root: int) -> float:
    """What a process and its living descendants have used, with those they waited for."""
    return sum(_of_process(pid) for pid in (root, *descendants(root)))


def descendants(root: int) -> list[int]:
    """All processes below one."""
    found: list[int] = []
    for task in Path(f"/proc/{root}/task").glob("*/children"):
        try:
            children = [int(pid) for pid in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def _of_process(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) * _TICK_S
