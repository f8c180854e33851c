"""Plays a story for real, and holds what the product says against what the loops received."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from ddlp.core.client import Client
from ddlp.core.types import RunState
from tests.conftest import SMALL_PIPELINE, UpProcess, wait_until
from tests.end_to_end.harm import kill
from tests.end_to_end.scenarios.job import Orders, Outcome, run_job
from tests.end_to_end.scenarios.story import Chapter, Line, Story
from tests.end_to_end.trainer import new_run

_CSD_SPEED = {"wrr": 0.5, "mte": 0.5, "bounded": 0.5, "cpu": None}
_OVER = (RunState.COMPLETED, RunState.INCOMPLETE)


class Teller:
    """Plays one story; `stack` is None for a local run."""

    def __init__(self, story: Story, images: Path, folder: Path, stack: UpProcess | None) -> None:
        self.story, self.images, self.folder, self.stack = story, images, folder, stack
        self.dice = Random(story.seed + 1)
        self.samples = sum(1 for _ in images.glob("*/*.jpg"))
        self.line = Line()
        self.saved: list[tuple[dict[str, Any], Line]] = []
        """States, and what the model that was saved with each had been trained on."""
        self.pixels: dict[tuple[int, int], int] = {}
        self.runs: list[str] = []
        self.ranks = story.chapters[0].ranks
        self._from_before = False
        """A state was loaded that was saved before a start that had loaded none."""

    def play(self) -> None:
        """From the first start to the end."""
        for number, chapter in enumerate(self.story.chapters):
            self._play(number, chapter)
        self._check_line()
        if self.stack is not None:
            with self.stack.client() as client:
                self._check_proof(client)

    def _play(self, number: int, chapter: Chapter) -> None:
        chapter, start, state, line = self._way_on(chapter)
        if self.stack is not None and (not self.runs or chapter.elsewhere):
            self._create_run()
        steps = self._steps_left(line, chapter.ranks)
        end_at = None
        if chapter.ends_after is not None and steps > 1:
            end_at = 1 + int(chapter.ends_after * (steps - 1))
        orders = Orders(
            where=self._where(),
            local=self.stack is None,
            ranks=chapter.ranks,
            epochs=self.story.epochs,
            start=start,
            state=state,
            save_at=tuple(1 + int(share * (end_at or steps)) for share in chapter.saves),
            leave_at=self._leave_at(chapter, line),
            end_at=end_at,
            how=chapter.how,
        )
        kill_server = self._kill_server if chapter.server_dies else None
        found = run_job(orders, self.folder / f"start-{number}", kill_server)
        assert not found.errors, found.errors
        if start == "continue" and found.began == (0, 0):
            line = Line()  # nothing was known to be received: all of it comes again
        self.saved = [kept for kept in self.saved if len(kept[1].received) <= len(line.received)]
        self._remember(line, found)
        self.ranks = chapter.ranks

    def _way_on(
        self, chapter: Chapter
    ) -> tuple[Chapter, int | str | None, dict[str, Any] | None, Line]:
        """How a start goes on, as far as what was saved before it allows that."""
        if chapter.start == "beginning" or not self.line.received:
            return chapter, 0 if self.runs else None, None, Line()
        if chapter.start == "state" and self.saved:
            state, line = self.dice.choice(self.saved[-2:])
            self._from_before |= line.breaks != self.line.breaks
            return chapter, None, state, line
        if chapter.start == "continue" and self._steps_left(self.line, 1):
            return replace(chapter, ranks=self.ranks), "continue", None, self.line.broken()
        epoch = self.dice.choice((0, max(got.epoch for got in self.line.received)))
        line = self.line.until(epoch)
        chapter = replace(chapter, elsewhere=chapter.elsewhere and not epoch)
        return chapter, epoch, None, line.broken() if epoch else line

    def _steps_left(self, line: Line, ranks: int) -> int:
        """About how many steps are left of the whole training."""
        done = [sum(line.counts(epoch).values()) for epoch in range(self.story.epochs)]
        each = self.story.batch_size * ranks
        return sum(max(0, self.samples - count) // each for count in done)

    def _leave_at(self, chapter: Chapter, line: Line) -> int | None:
        if chapter.leaves_after is None:
            return None
        first = max((got.epoch for got in line.received), default=0)
        left = self.samples - sum(line.counts(first).values())
        steps = left // (self.story.batch_size * chapter.ranks)
        return 1 + int(chapter.leaves_after * (steps - 1)) if steps > 1 else None

    def _remember(self, line: Line, found: Outcome) -> None:
        for got in (got for rank in found.received for got in rank):
            for sample, pixels in zip(got.samples, got.pixels, strict=True):
                known = self.pixels.setdefault((got.epoch, sample), pixels)
                assert known == pixels, f"sample {sample} came with other pixels"
        for step, state in sorted(found.states.items()):
            self.saved.append((state, line.then(found.received, step)))
        self.line = line.then(found.received)

    # The product's side

    def _where(self) -> dict[str, Any]:
        story = self.story
        if self.stack is not None:
            return {"run": self.runs[-1], "url": self.stack.url, "normalize": False}
        return {
            "data": str(self.images),
            "pipeline": SMALL_PIPELINE,
            "batch_size": story.batch_size,
            "seed": story.seed,
            "strategy": story.strategy,
            "tail": story.tail,
            "workers": 1,
            "csd_speed": _CSD_SPEED[story.strategy],
            "normalize": False,
        }

    def _create_run(self) -> None:
        assert self.stack is not None
        story = self.story
        with self.stack.client() as client:
            if self.runs and self.dice.random() < 0.5 and not self._is_over(client):
                client.post(f"/runs/{self.runs[-1]}/cancel", {})
            self.runs.append(
                new_run(
                    client,
                    batch_size=story.batch_size,
                    seed=story.seed,
                    strategy=story.strategy,
                    tail=story.tail,
                    epochs=story.epochs,
                    world_size=None,
                )
            )

    def _is_over(self, client: Client) -> bool:
        return client.get(f"/runs/{self.runs[-1]}")["state"] in _OVER

    def _kill_server(self) -> None:
        assert self.stack is not None
        kill(self.stack.children()["serve"])

    # The reckoning

    def _check_line(self) -> None:
        """Each sample of each epoch once, by what the loops received."""
        story = self.story
        ranks = max(chapter.ranks for chapter in story.chapters)
        a_round = story.batch_size * ranks
        cuts = len(story.chapters)
        """In each of them the tail policy may leave out, or repeat, less than a round."""
        for epoch in range(story.epochs):
            counts = self.line.counts(epoch)
            missing = self.samples - len(counts)
            extra = counts.total() - len(counts)
            told = f"epoch {epoch} of {story}: {missing} missing, {extra} twice"
            if not self._leaves:
                assert missing < (a_round * cuts if story.tail == "drop" else 1), told
            if not self.line.breaks:  # a start that took what was left may get some again
                assert extra < {"short": ranks, "drop": 1, "pad": a_round}[story.tail] * cuts, told

    @property
    def _leaves(self) -> bool:
        return any(chapter.leaves_after is not None for chapter in self.story.chapters)

    def _check_proof(self, client: Client) -> None:
        run = self.runs[-1]
        # A run whose last epoch was left waits for a trainer to come back to it.
        ended = (*_OVER, RunState.PAUSED) if self._leaves else _OVER
        wait_until(lambda: client.get(f"/runs/{run}")["state"] in ended, 30.0)
        proof = client.get(f"/runs/{run}/verify")
        told = f"{proof} of {self.story}"
        missing = sum(
            self.samples - len(self.line.counts(epoch)) for epoch in range(self.story.epochs)
        )
        if not self._leaves:
            assert proof["exactly_once"] is True, told
            assert proof["taken_over"] or missing == proof["dropped"], told
        elif self.story.tail != "drop":
            assert proof["exactly_once"] is (missing == 0), told
        if self._from_before:  # a state does not say which of the two saved it
            return
        if not self.line.breaks:
            assert proof["unbroken"] is True, told
        else:
            assert proof["unbroken"] is False, told
