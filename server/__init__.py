"""The control plane: datasets, runs, devices and leases in SQL, behind a REST API."""
