"""Packs shards in a process apart: `python -m ddlp.core.records.pack_process`.

It is given the number of the process that it ends with. It reads a request, one line of JSON, from
standard input, and then the number of a shard a line; it answers with lines of JSON: how far it is,
and how each shard ended.
"""

import signal
import sys
import traceback
from dataclasses import asdict
from typing import BinaryIO

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import DdlpError
from ddlp.core.process import die_with_parent, own_stdout
from ddlp.core.records.options import PackOptions
from ddlp.core.records.orders import PackLine, PackRequest
from ddlp.core.records.packing import pack_shard, plan_shards
from ddlp.core.records.progress import PackProgress


def serve(orders: BinaryIO, answers: BinaryIO) -> None:
    """The child: pack shards until there are no more orders."""

    def say(line: PackLine) -> None:
        answers.write(line.model_dump_json(exclude_defaults=True).encode() + b"\n")
        answers.flush()

    def report(now: PackProgress) -> None:
        say(PackLine(progress=asdict(now)))

    request = PackRequest.model_validate_json(orders.readline())
    try:
        index, options = DatasetIndex(request.index_path), PackOptions(**request.options)
        plan = plan_shards(index.samples, request.per_shard)
        for order in orders:
            made = pack_shard(index, plan, int(order), options, request.into, report)
            index.relax()
            say(PackLine(summary=asdict(made)))
    except DdlpError as error:
        say(PackLine(status=error.status, reason=str(error)))
    except Exception as error:  # the border of the process: whoever asked must learn of it
        traceback.print_exc()
        say(PackLine(status=DdlpError.status, reason=f"{type(error).__name__}: {error}"))


def main() -> None:
    """Pack for the process that started this one."""
    die_with_parent(int(sys.argv[1]))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to all of a service; its parent ends it
    with own_stdout() as answers:
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
