"""The Celery application both sides share: signed JSON, two queues, nothing kept in the broker."""

from typing import Any

from celery import Celery
from redis import Redis
from redis.exceptions import RedisError

from ddlp.core.errors import Unavailable
from ddlp.core.seal import Seal
from ddlp.core.sealed_redis import SEAL, use_sealed_transport
from ddlp.core.types import Prong
from ddlp.core.urls import without_password

TASK = "ddlp.produce"
PACK = "ddlp.pack"
"""Write one shard of a packed dataset."""


def create_celery(redis_url: str, seal: Seal) -> Celery:
    """A Celery application for the broker at this URL, whose messages are signed."""
    use_sealed_transport()
    celery = Celery("ddlp", broker=broker_url(redis_url))
    celery.conf.update(_configuration(seal))
    return celery


def broker_url(redis_url: str) -> str:
    """A Redis URL as Celery writes it; unix:///path becomes redis+socket:///path."""
    return redis_url.replace("unix://", "redis+socket://", 1)


def check_broker(redis_url: str) -> None:
    """Raise unless the broker answers."""
    try:
        with Redis.from_url(redis_url, socket_connect_timeout=2, socket_timeout=2) as client:
            client.ping()
    except (RedisError, ValueError, OSError) as error:
        raise Unavailable(
            f"the broker at {without_password(redis_url)} cannot be reached ({error}); start "
            "it, or correct DDLP_REDIS_URL, or unset it to use the embedded one of ddlp up"
        ) from error


def _configuration(seal: Seal) -> dict[str, Any]:
    return {
        "accept_content": ["json"],
        "task_serializer": "json",
        "result_serializer": "json",
        "task_ignore_result": True,
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_default_queue": Prong.CPU.value,
        "task_create_missing_queues": True,
        "worker_prefetch_multiplier": 1,
        "worker_send_task_events": False,
        "worker_enable_remote_control": False,
        "worker_hijack_root_logger": False,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_transport_options": {
            SEAL: seal,
            "socket_timeout": 10,
            "socket_connect_timeout": 2,
            # Long: a message that is delivered again would find its lease given to someone else.
            "visibility_timeout": 3600,
            "unacked_restore_interval": 2,
            "unacked_restore_throttle": 1,
        },
    }
