"""One file a step of the database's schema."""
