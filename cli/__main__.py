"""So that a child process can be started as `python -m ddlp.cli`."""

from ddlp.cli.main import run

run()
