"""Runs the benchmarks: `python -m benchmarks [NAME …] [--quick]`."""

import argparse

from benchmarks import hand_over, path_cost
from benchmarks.report import Report, write

BENCHMARKS = {"path_cost": path_cost.measure, "hand_over": hand_over.measure}


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
        report: Report = BENCHMARKS[name](quick=arguments.quick)
        print(write(name, report, keep=not arguments.quick), flush=True)


if __name__ == "__main__":
    main()
