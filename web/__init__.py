"""The pages: server-rendered, kept live by htmx over server-sent events."""
