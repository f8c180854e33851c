"""Takes the fold of bytes where they lie, so that an accelerator's memory need not be copied back.

It is that of `ddlp.core.fold`: 64-bit numbers that overflow are the same with a sign and without.
"""

import numpy as np
import torch

from ddlp.core.fold import PAGE_WORDS, multipliers, word_multipliers

_PAGE_BYTES = 8 * PAGE_WORDS
_STEP_PAGES = 4096
"""Pages that are taken at once: what lies between is 16 MiB."""
_MASK = (1 << 64) - 1


class DeviceFold:
    """Folds memory of one device."""

    def __init__(self, device: torch.device | str) -> None:
        self._device = torch.device(device)
        self._words = self._signed(word_multipliers())
        self._pages = torch.empty(0, dtype=torch.int64, device=self._device)
        self._first = 0

    def __call__(self, memory: torch.Tensor, first_page: int = 0) -> int:
        """The fold of whole pages of bytes, of which the first is this one of the payload."""
        pages = memory.view(torch.int64).view(-1, PAGE_WORDS)
        factors = self._multipliers(first_page, len(pages))
        total = torch.zeros((), dtype=torch.int64, device=memory.device)
        for at in range(0, len(pages), _STEP_PAGES):
            sums = (pages[at : at + _STEP_PAGES] * self._words).sum(1)
            total += (sums * factors[at : at + _STEP_PAGES]).sum()
        return int(total.item()) & _MASK

    def _multipliers(self, first_page: int, count: int) -> torch.Tensor:
        """Kept from batch to batch: they differ only in how many there are."""
        if first_page != self._first or count > len(self._pages):
            self._pages = self._signed(multipliers(first_page, count))
            self._first = first_page
        return self._pages[:count]

    def _signed(self, numbers: "np.typing.NDArray[np.uint64]") -> torch.Tensor:
        return torch.from_numpy(numbers.view(np.int64)).to(self._device)


def fold_tensor(memory: torch.Tensor, first_page: int = 0) -> int:
    """The fold of whole pages of bytes, wherever they lie."""
    return DeviceFold(memory.device)(memory, first_page)
