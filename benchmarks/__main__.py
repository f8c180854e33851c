"""Runs the benchmarks: `python -m benchmarks [NAME …] [--quick]`."""

import argparse
from collections.abc import Callable

from benchmarks import (
    batch_io,
    csd_cost,
    dataset_index,
    first_page,
    hand_over,
    image_path,
    live_pages,
    loader_start,
    open_page_memory,
    path_cost,
    records,
    round_trip,
    run_page,
    scheduling,
    telemetry_cost,
    two_prongs,
    worker_memory,
)
from benchmarks.report import Report, Reports, write

BENCHMARKS: dict[str, Callable[[bool], Report | Reports]] = {
    "path_cost": path_cost.measure,
    "hand_over": hand_over.measure,
    "batch_io": batch_io.measure,
    "csd_cost": csd_cost.measure,
    "image_path": image_path.measure,
    "records": records.measure,
    "records_loader": records.measure_loader,
    "loader_start": loader_start.measure,
    "round_trip": round_trip.measure,
    "two_prongs": two_prongs.measure,
    "worker_memory": worker_memory.measure,
    "dataset_index": dataset_index.measure,
    "scheduling": scheduling.measure,
    "telemetry_cost": telemetry_cost.measure,
    "run_page": run_page.measure,
    "first_page": first_page.measure,
    "live_pages": live_pages.measure,
    "open_page_memory": open_page_memory.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"any of: {', '.join(BENCHMARKS)}")
    parser.add_argument(
        "--quick", action="store_true", help="few rounds on little data: a smoke test"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    for name in arguments.names or BENCHMARKS:
        report = BENCHMARKS[name](arguments.quick)
        print(write(name, report, keep=not arguments.quick), flush=True)


if __name__ == "__main__":
    main()
