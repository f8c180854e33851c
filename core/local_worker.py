"""A producer beside a training process: leases come in on standard input, reports go out.

One JSON object a line. The first one says what to work on; the end of input ends the process, so it
never outlives whoever started it.
"""

import sys
from pathlib import Path
from typing import BinaryIO

from pydantic import Field

from ddlp.core.errors import BadSample, DdlpError, NoRoom, is_bug
from ddlp.core.messages import Lease, Message, WorkSpec
from ddlp.core.mishap import Mishap
from ddlp.core.process import own_stdout
from ddlp.core.produce import Producer
from ddlp.core.stages import StageTimes
from ddlp.core.store import FolderStore


class Hello(Message):
    """What a worker is to work on."""

    spec: WorkSpec
    store: Path
    device: str
    speed: float


class Report(Message):
    """A lease's outcome: a batch, or why there is none."""

    lease: Lease
    device: str = ""
    location: str = ""
    nbytes: int = 0
    checksum: int = Field(0, ge=0, lt=2**64)
    seconds: float = 0.0
    cpu_s: float = 0.0
    bad: tuple[Mishap, ...] = ()
    times: StageTimes = StageTimes()
    problem: str | None = None
    permanent: bool = False
    bug: bool = False
    no_room: bool = False


def serve(orders: BinaryIO, reports: BinaryIO) -> None:
    """Work off leases until there are no more."""
    hello = Hello.model_validate_json(orders.readline())
    producer = Producer(hello.spec, FolderStore(hello.store), hello.device)
    for line in orders:
        report = _make(producer, Lease.model_validate_json(line), hello.speed)
        reports.write(report.model_dump_json().encode() + b"\n")
        reports.flush()


def _make(producer: Producer, lease: Lease, speed: float) -> Report:
    try:
        made = producer.make(lease, speed)
    except BadSample as error:
        return Report(lease=lease, problem=str(error), permanent=True)
    except NoRoom as error:
        return Report(lease=lease, problem=str(error), no_room=True)
    except DdlpError as error:
        return Report(lease=lease, problem=str(error))
    except Exception as error:  # the border of the process: the trainer must learn of it
        problem = f"{type(error).__name__}: {error}"
        return Report(lease=lease, problem=problem, bug=is_bug(error))
    return Report(lease=lease, **vars(made))


if __name__ == "__main__":
    with own_stdout() as channel:
        serve(sys.stdin.buffer, channel)
