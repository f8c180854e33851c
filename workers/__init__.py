"""Producers of batches: Celery workers that know the queue and the control plane's URL."""
