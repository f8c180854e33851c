"""Alembic migrations; `ddlp up` runs them by itself."""
