"""What packing a dataset would come to, tried apart: `python -m ddlp.core.forecast_process`.

It decodes whatever it is given, so it runs in a process of its own, bounded in memory and time. The
argument is the number of the process that it ends with. A request as JSON comes on standard input,
the forecast goes to standard output.
"""

import json
import resource
import sys
from dataclasses import asdict
from pathlib import Path

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import DdlpError
from ddlp.core.messages import Message, PackChoice
from ddlp.core.process import die_with_parent, own_stdout
from ddlp.core.records import PackOptions, forecast

_MEMORY_BYTES = 2 << 30
SECONDS = 60


class ForecastRequest(Message):
    """What is to be packed, and how."""

    index_path: Path
    choice: PackChoice


def main() -> None:
    """Bound this process, and answer one request."""
    die_with_parent(int(sys.argv[1]))
    # Not RLIMIT_AS: the index of a large dataset is mapped, and costs nothing.
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    with own_stdout() as answers:
        try:
            request = ForecastRequest.model_validate_json(sys.stdin.buffer.read())
            options = PackOptions(**request.choice.model_dump())
            found = forecast(DatasetIndex(request.index_path), options)
        except DdlpError as error:
            sys.exit(str(error))
        except MemoryError:
            sys.exit(f"it takes more than {_MEMORY_BYTES >> 20} MiB of memory")
        answers.write(json.dumps(asdict(found)).encode())


if __name__ == "__main__":
    main()
