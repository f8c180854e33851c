"""What a finished batch is called; nobody has to say so, and nobody can say otherwise."""

import re
import uuid

RUN_PREFIX = "ddlp-run-"
_NAME = re.compile(
    rf"{RUN_PREFIX}([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})/\d{{5,10}}-\d{{8,20}}-\d{{1,20}}",
    re.ASCII,
)


def run_folder(run: uuid.UUID) -> str:
    """The folder of a run in a store."""
    return f"{RUN_PREFIX}{run}"


def batch_name(run: uuid.UUID, epoch: int, index: int, token: int) -> str:
    """A batch's name in a store; the same in folders, objects and addresses."""
    return f"{run_folder(run)}/{epoch:05d}-{index:08d}-{token}"


def is_batch_name(text: str) -> bool:
    """Whether a text is the name of a batch and nothing else: no path leads anywhere from it."""
    return _NAME.fullmatch(text) is not None


def parse_run(folder: str) -> uuid.UUID | None:
    """The run that a folder belongs to."""
    try:
        run = uuid.UUID(folder.removeprefix(RUN_PREFIX))
    except ValueError:
        return None
    return run if run_folder(run) == folder else None
