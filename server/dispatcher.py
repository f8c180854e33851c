"""The dispatcher: one thread through which every change of a run goes.

It takes what has arrived meanwhile, applies it to the board, tops up the windows, writes all of it
in one transaction, and only then answers. Under load the groups grow by themselves.
"""

import logging
import queue
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from ddlp.core.errors import DdlpError
from ddlp.core.lifecycle import TERMINAL
from ddlp.core.messages import Fed, FeedRequest, Lease
from ddlp.core.outage import Outage
from ddlp.core.schedule import Grant
from ddlp.core.types import EpochState, Prong, RunState
from ddlp.server import files, identity, ledger, reconciler, retention, rollups, serving, sessions
from ddlp.server.board import ActiveRun, Board
from ddlp.server.calls import Action, BadCallError, Call, settle
from ddlp.server.database import Database, is_down, steady_clock
from ddlp.server.failures import told
from ddlp.server.models import Run
from ddlp.server.ownership import OwnershipLost
from ddlp.server.remainder import samples_left
from ddlp.server.serving import Hungry

_TICK_S = 0.1
_GROUP = 512
_TOKENS = 1000
"""Fencing tokens that are reserved at once, so that not every lease must say so."""

log = logging.getLogger(__name__)

Send = Callable[[Prong, list[Lease]], None]


class Dispatcher:
    """Owns the board."""

    def __init__(
        self,
        database: Database,
        board: Board,
        send: Send,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._database = database
        self._board = board
        self._send = send
        # Leases are timed by the database: two servers, one after the other, share its clock.
        self._clock = clock or steady_clock(database.now())
        self._reconciled_at = 0.0
        self._calls: queue.Queue[Call | None] = queue.Queue()
        self._hungry: list[Hungry] = []
        self._again: list[Call] = []
        self._alone = False
        """Whether these are done one by one."""
        self._probe = False
        """Whether a group of nothing comes next: if it fails too, no request is to blame."""
        self._clear: list[Callable[[], None]] = []
        """What can be removed from the stores once the group is written."""
        self._stopping = threading.Event()
        self._outage = Outage(log, "what was asked cannot be written to the database")
        self._clearing = Outage(log, "files that are not needed any more cannot be removed")
        self._thread = threading.Thread(target=self._work, name="dispatcher", daemon=True)

    def start(self) -> None:
        """Read the board, sweep what earlier runs left, and begin."""
        self._load()
        with self._database.session() as session:
            files.sweep(self._board, ledger.over_runs(session))
        self._thread.start()

    def stop(self) -> None:
        """Finish the group at hand and end."""
        self._stopping.set()
        self._calls.put(None)
        self._thread.join(timeout=10)

    def now(self) -> float:
        """The time by which leases run out and devices fall silent."""
        return self._clock()

    @property
    def alive(self) -> bool:
        """Whether the thread works."""
        return self._thread.is_alive()

    def call(self, action: Action) -> "Future[Any]":
        """Run an action on the board; the answer comes when its effects are in the database."""
        answer: Future[Any] = Future()
        self._calls.put(Call(action, answer))
        return answer

    def feed(self, run_id: uuid.UUID, request: FeedRequest) -> "Future[Fed]":
        """Take acknowledgements, and answer as soon as there is a batch or when time is up."""
        answer: Future[Fed] = Future()

        def enter(board: Board, session: Session, now: float) -> None:
            run = board.run(run_id)
            serving.acknowledge(board, session, run, request, now)
            if run.state is RunState.CREATED:
                self._change(session, run, RunState.RUNNING, now)
            self._hungry.append(Hungry(run_id, request, now + request.wait_s, answer, now))

        self._calls.put(Call(enter, answer, deferred=True))
        return answer

    def change_state(self, run_id: uuid.UUID, wanted: RunState) -> "Future[None]":
        """Pause, resume or cancel a run."""
        return self.call(
            lambda board, session, now: self._change(session, board.run(run_id), wanted, now)
        )

    # In the thread

    def _work(self) -> None:
        while not self._stopping.is_set():
            calls = self._gather()
            hungry = list(self._hungry)
            try:
                resolve = self._group(calls)
            except BadCallError as bad:
                # Nothing was written. The one is told; the others are done again without it.
                self._refuse(bad.answer, bad.error)
                left = [call for call in calls if call.answer is not bad.answer]
                self._again = left + self._again
                self._hungry = [one for one in hungry if one.answer is not bad.answer]
                self._reload()
            except OwnershipLost as lost:
                self._refuse_all(calls, lost)
                return
            except Exception as error:  # the border of the thread: report to all who wait, go on
                if calls and not is_down(error):
                    self._single_out(calls, hungry, error)
                else:
                    pause_s = self._outage.failed(error, trace=True)
                    self._give_up(calls, error)
                    self._stopping.wait(pause_s)
            else:
                self._outage.succeeded()
                self._finish(resolve)
        self._save_counts()

    def _single_out(self, calls: list[Call], hungry: list[Hungry], error: Exception) -> None:
        """One request cannot be written: each is done again alone to find it, and that is told."""
        self._hungry = hungry
        if len(calls) > 1:
            log.warning("a group of %d requests failed (%r)", len(calls), error)
            self._again, self._alone = calls, True
        else:
            self._refuse(calls[0].answer, error)
            self._hungry = [one for one in hungry if one.answer is not calls[0].answer]
            self._probe = True
        self._reload()

    def _finish(self, resolve: list[tuple["Future[Any]", Any]]) -> None:
        """What a group that is written allows: files go, and who asked is answered."""
        written, self._board.written = self._board.written, []
        clear, self._clear = self._clear, []
        self._do_each(written)
        for answer, result in resolve:
            settle(answer, result)
        self._do_each(clear)

    def _do_each(self, actions: Sequence[Callable[[], object]]) -> None:
        """Clear away; what a store does not allow now goes with its run or at the next start."""
        for action in actions:
            try:
                action()
            except (DdlpError, OSError) as error:
                self._clearing.failed(error, trace=True)
            else:
                self._clearing.succeeded()

    def _refuse(self, answer: "Future[Any]", error: Exception) -> None:
        """Tell the one whose request the schedule or the database cannot take."""
        log.error("a request could not be handled", exc_info=error)
        settle(answer, told(error))

    def _save_counts(self) -> None:
        """What was counted in the last second before the end."""
        now = self._clock()
        try:
            with self._database.session() as session:
                for run in self._board.runs.values():
                    news = run.telemetry.take(now, all_of_it=True)
                    rollups.save_news(session, run.id, news)
        except (SQLAlchemyError, OwnershipLost) as error:
            log.warning("the last second's figures are lost: %s", error)

    def _gather(self) -> list[Call]:
        """What has arrived, after a short wait for the first."""
        if self._probe:
            self._probe = False
            return []
        self._alone = self._alone and bool(self._again)
        if self._alone:
            first, *self._again = self._again
            return [first]
        calls: list[Call | None] = [*self._again]
        self._again = []
        try:
            calls.append(self._calls.get(timeout=0 if calls else _TICK_S))
            while len(calls) < _GROUP:
                calls.append(self._calls.get_nowait())
        except queue.Empty:
            pass
        return [call for call in calls if call is not None]

    def _group(self, calls: list[Call]) -> list[tuple["Future[Any]", Any]]:
        now = self._clock()
        with self._database.session() as session:
            resolve = [found for call in calls if (found := self._apply(call, session, now))]
            resolve += self._serve(now)
            leases = self._advance(session, now)
            self._save(session, now)
        for prong, group in leases:
            self._send(prong, group)
        return resolve

    def _apply(self, call: Call, session: Session, now: float) -> tuple["Future[Any]", Any] | None:
        try:
            with identity.acting_as(call.asked_by):
                result = call.action(self._board, session, now)
                session.flush()  # what the database does not take is known to be this call's
        except DdlpError as error:
            return call.answer, error
        except Exception as error:
            if is_down(error):
                raise
            raise BadCallError(call.answer, error) from error
        return None if call.deferred else (call.answer, result)

    def _serve(self, now: float) -> list[tuple["Future[Any]", Any]]:
        """Answer the ranks that can be answered; the others go on waiting."""
        served: list[tuple[Future[Any], Any]] = []
        still: list[Hungry] = []
        for hungry in self._hungry:
            try:
                run = self._board.run(hungry.run_id)
                hungry.check(run)
                fed = serving.fetch(self._board, run, hungry.request, now)
            except DdlpError as error:
                served.append((hungry.answer, error))
                continue
            except Exception as error:
                raise BadCallError(hungry.answer, error) from error
            if fed.batches or fed.done or now >= hungry.until:
                hungry.look(now, {})
                blamed = fed.model_copy(update={"blame_s": hungry.blame_s})
                served.append((hungry.answer, blamed))
            else:
                hungry.look(now, serving.blame(run, hungry.request.epoch))
                still.append(hungry)
        self._hungry = still
        return served

    def _advance(self, session: Session, now: float) -> list[tuple[Prong, list[Lease]]]:
        """Let time pass: dead devices, lost leases, full windows, finished runs."""
        self._board.note_silent(now)
        if now >= self._reconciled_at + reconciler.PERIOD_S:
            self._reconciled_at = now
            retention.forget(session, self._board.settings, now)
            for stopped, why in reconciler.reconcile(self._board, session, now):
                self._change(session, stopped, RunState.FAILED, now, why)
        leases: list[tuple[Prong, list[Lease]]] = []
        for run in [run for run in self._board.runs.values() if run.state not in TERMINAL]:
            self._board.set_devices(run)
            sessions.note_silent(self._board, session, run, now)
            run.watch_delivery(now)
            serving.tell_made_again(run, now)
            run.schedule.expire(now)
            if run.producing:
                leases += _messages(run, run.schedule.top_up(now))
            if run.schedule.doom is not None:
                self._change(session, run, RunState.FAILED, now, run.schedule.doom)
            elif run.schedule.finished:
                self._change(session, run, *_ending(session, run, now))
        return leases

    def _change(
        self,
        session: Session,
        run: ActiveRun,
        wanted: RunState,
        now: float,
        reason: str | None = None,
    ) -> None:
        row = session.get_one(Run, run.id)
        ledger.change_state(session, row, wanted, now, reason)
        run.state, run.reason, run.left = wanted, reason, False

    def _save(self, session: Session, now: float) -> None:
        for run in list(self._board.runs.values()):
            over = run.state in TERMINAL
            changes = run.schedule.changes()
            ledger.save_changes(session, run.id, changes, now)
            closing = over or any(e.state is not EpochState.OPEN for e in changes.epochs)
            self._save_run(session, run, now, closing)
            rollups.save_news(session, run.id, run.telemetry.take(now, all_of_it=over))
            self._clear.append(partial(files.discard, self._board, run.id, changes.void))
            for epoch in changes.epochs:
                if epoch.state is EpochState.ABANDONED:
                    self._clear.append(partial(files.remove_batches, self._board, run.id, epoch))
            if over:
                serving.tell_made_again(run, now, over=True)
                rollups.save_trace(session, run.id, run.timeline.pack(now))
                ledger.drop_open_epochs(session, run.id, now)
                self._clear.append(partial(files.remove_run, self._board, run.id))
                del self._board.runs[run.id]

    def _save_run(self, session: Session, run: ActiveRun, now: float, closing: bool) -> None:
        """Remember what belongs to the run itself, where that is not known yet."""
        schedule = run.schedule
        held_up = None if run.state in TERMINAL else schedule.held_up
        if held_up != run.held_up:
            ledger.change_held_up(session, session.get_one(Run, run.id), held_up, now)
            run.held_up = held_up
        if schedule.expected_failure != run.expected_failure:
            run.expected_failure = schedule.expected_failure
            if run.expected_failure is not None and run.state not in TERMINAL:
                reason = run.expected_failure
                ledger.audit(session, "run.will_fail", run.name, now, reason=reason)
        if not run.sessions_saved or run.came_saved != schedule.sessions:
            session.get_one(Run, run.id).trainers = run.trainers_json()
        if schedule.checkpoint != run.checkpoint_saved:
            run.checkpoint_saved = schedule.checkpoint
            session.get_one(Run, run.id).checkpoint = list(schedule.checkpoint or ()) or None
        if len(run.engines) > run.engines_saved:
            session.get_one(Run, run.id).engines = ", ".join(sorted(run.engines))
            run.engines_saved = len(run.engines)
        if schedule.next_token >= run.tokens_saved:
            run.tokens_saved = schedule.next_token + _TOKENS
            session.get_one(Run, run.id).tokens = run.tokens_saved
        for device, member in schedule.fleet.members.items():
            batches = member.pace.batches
            is_news = batches > run.paces_saved.get(device, 0) and (
                closing or device not in run.paces_saved
            )
            if is_news and batches >= schedule.limits.calibration_batches:
                ledger.save_pace(session, session.get_one(Run, run.id), device, member, now)
                run.paces_saved[device] = batches

    def _refuse_all(self, calls: list[Call], lost: OwnershipLost) -> None:
        """Nothing more can be written: tell everyone who asks, until the server ends."""
        while True:
            for answer in [*(c.answer for c in calls), *(h.answer for h in self._hungry)]:
                settle(answer, lost)
            self._hungry = []
            if self._stopping.is_set():
                return
            calls = self._gather()

    def _give_up(self, calls: list[Call], error: Exception) -> None:
        """Nothing was written: tell everyone, and read the board back when that works."""
        self._turn_away([*calls, *self._again], error)
        self._again = []
        self._reload()

    def _turn_away(self, calls: list[Call], error: Exception) -> None:
        failure = told(error)
        for answer in [*(c.answer for c in calls), *(h.answer for h in self._hungry)]:
            settle(answer, failure)
        self._hungry = []

    def _reload(self) -> None:
        """Read the board back, as soon as that works."""
        self._clear, self._board.written = [], []
        while not self._stopping.is_set():
            try:
                self._load()
            except Exception as error:
                pause_s = self._outage.failed(error, trace=True)
                self._alone = False
                self._turn_away(self._gather(), error)
                self._stopping.wait(pause_s)
            else:
                return

    def _load(self) -> None:
        with self._database.session() as session:
            self._board.load(session, self._clock())


def _ending(session: Session, run: ActiveRun, now: float) -> tuple[RunState, float, str | None]:
    """Whether a run whose epochs are all over was completed."""
    plan = run.schedule.plan
    complete, first = ledger.complete_epochs(session, run.id)
    complete += sum(e.state is EpochState.COMPLETE for e in run.schedule.epochs.values())
    firsts = [e.origin.first_epoch for e in run.schedule.epochs.values() if e.origin is not None]
    wanted = (plan.epochs or 0) - max([first, *firsts])
    if complete >= wanted:
        return RunState.COMPLETED, now, None
    left = samples_left(session, session.get_one(Run, run.id), run.schedule.epochs)
    reason = (
        f"{complete} of {wanted} epochs were delivered to their end; "
        f"{left:,} samples of the others were left"
    )
    return RunState.INCOMPLETE, now, reason


def _messages(run: ActiveRun, granted: list[Grant]) -> list[tuple[Prong, list[Lease]]]:
    """Leases as messages: several in one where batches take little time."""
    found: list[tuple[Prong, list[Lease]]] = []
    for prong in Prong:
        leases = [Lease.of(run.id, grant) for grant in granted if grant.prong is prong]
        size = run.schedule.message_leases(prong)
        found += [(prong, leases[at : at + size]) for at in range(0, len(leases), size)]
    return found
