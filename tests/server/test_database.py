"""Migrations run up and down on SQLite and PostgreSQL, and say what the models say."""

from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, inspect, text

from ddlp.core.errors import InvalidInput, Unavailable
from ddlp.server.database import Database, alembic_config, connect, migrate
from ddlp.server.models import Base
from ddlp.server.ownership import migrate_beside


def test_migrations_make_what_the_models_describe(engine: Engine) -> None:
    migrate(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_migrations_go_down_again_and_leave_nothing(engine: Engine) -> None:
    migrate(engine)
    command.downgrade(alembic_config(engine), "base")
    assert set(inspect(engine).get_table_names()) <= {"alembic_version"}
    migrate(engine)
    assert "batches" in inspect(engine).get_table_names()


def test_migrating_twice_changes_nothing(engine: Engine) -> None:
    migrate(engine)
    migrate(engine)


def test_a_database_of_a_newer_version_is_left_alone(engine: Engine) -> None:
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    with pytest.raises(InvalidInput, match=r"newer version of DDLP \(revision 9999\)"):
        migrate(engine)


def test_tables_without_a_version_are_refused_with_what_to_do(engine: Engine) -> None:
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(text("drop table alembic_version"))
    with pytest.raises(InvalidInput, match=r"has tables \(.*does not say of which version"):
        migrate(engine)
    database = Database(engine.url.render_as_string(hide_password=False))
    with pytest.raises(InvalidInput, match="Restore it from a backup"):
        migrate_beside(database)
    database.close()


def test_a_database_that_cannot_be_reached_is_said_to_be() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        migrate(connect("postgresql://nobody:secret@127.0.0.1:1/none"))


def test_a_password_is_not_shown_when_it_cannot_be_reached() -> None:
    with pytest.raises(Unavailable) as caught:
        migrate(connect("postgresql://nobody:secret@127.0.0.1:1/none"))
    assert "secret" not in str(caught.value)


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="DDLP_DATABASE_URL"):
        connect("nonsense")


def test_a_session_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/test.db")
    migrate(database.engine)

    def fail_half_way() -> None:
        with database.session() as session:
            session.execute(text("insert into pipelines values ('a', 'h', '[]', 0)"))
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    with database.session() as session:
        assert session.execute(text("select count(*) from pipelines")).scalar() == 0
    database.close()
