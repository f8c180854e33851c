"""Meters of a host: where its joules are read, and how they are modelled where nothing is.

| file | what it decides |
|---|---|
| `base` | what a meter is |
| `tally` | how a counter that wraps and powers that are sampled become sums |
| `rapl` | joules of packages and memory, from the kernel's powercap tree |
| `zeusd` | the same through a daemon, for processes that may not read the tree |
| `nvml` | joules of NVIDIA GPUs |
| `proc` | how long processors were busy, and how much memory is in use |
| `model` | joules of what cannot be measured, from declared watts |
| `host` | which of these a host uses |
| `single` | which process of a host samples |
| `replay` | samples that were recorded, played again |
| `files` | joules from a single file of a device |
| `nvme` | watts of a drive, from its own table of power states |

`docs/energy.md` says what the figures mean.
"""

from ddlp.core.meters.base import Meter
from ddlp.core.meters.host import HostMeters
from ddlp.core.meters.single import OnePerHost, Sampling

__all__ = ["HostMeters", "Meter", "OnePerHost", "Sampling"]
