"""Packing: a dataset's JPEGs as records, in shards that are read in place of the files."""

from ddlp.core.dataset.shards import shard_name
from ddlp.core.records.forecasting import Forecast, forecast
from ddlp.core.records.locally import PackSummary, pack_locally
from ddlp.core.records.options import PackOptions
from ddlp.core.records.packing import ShardSummary, check_packable, pack_shard, plan_shards
from ddlp.core.records.progress import PackProgress
from ddlp.core.records.unpacking import UnpackSummary, unpack

__all__ = [
    "Forecast",
    "PackOptions",
    "PackProgress",
    "PackSummary",
    "ShardSummary",
    "UnpackSummary",
    "check_packable",
    "forecast",
    "pack_locally",
    "pack_shard",
    "plan_shards",
    "shard_name",
    "unpack",
]
