"""Seals the certificates of epochs that are over, in a thread of its own.

Drawing one up reads the whole ledger of an epoch: the dispatcher must not be held up by that.
"""

import logging
import threading

from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from ddlp.core.errors import Unavailable
from ddlp.core.outage import Outage
from ddlp.server import certificates
from ddlp.server.database import Database

_PERIOD_S = 0.5

log = logging.getLogger(__name__)


class Notary(threading.Thread):
    """Looks for epochs that are over and have no certificate yet."""

    def __init__(self, database: Database) -> None:
        super().__init__(name="notary", daemon=True)
        self._database = database
        self._stopping = threading.Event()

    def run(self) -> None:
        """Seal what there is, then look again in a while."""
        outage = Outage(log, "certificates cannot be sealed")
        while not self._stopping.is_set():
            try:
                while self.seal_one() and not self._stopping.is_set():
                    pass
            except (SQLAlchemyError, Unavailable) as error:
                self._stopping.wait(outage.failed(error))
            else:
                outage.succeeded()
            self._stopping.wait(_PERIOD_S)

    def seal_one(self) -> bool:
        """Seal one certificate; whether there was one to seal."""
        try:
            with self._database.session() as session:
                return certificates.seal_next(session)
        except IntegrityError:  # the run was removed, or another server was quicker
            return False

    def stop(self) -> None:
        """Finish the one at hand and end."""
        self._stopping.set()
        if self.is_alive():
            self.join(timeout=10)
