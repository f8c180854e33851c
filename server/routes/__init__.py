"""One router a resource; routes are thin, services do the work."""
