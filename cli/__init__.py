"""The command `ddlp`: starts the parts, and talks to a running server."""
