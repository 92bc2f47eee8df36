"""One strategy of captured rounds: what is recorded, and what Python decides between two rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from botorch_tv.inference.basis import Basis
from botorch_tv.inference.costs import FIRST_SLOTS, REFRESH_ROUNDS
from botorch_tv.simulation.captured.parts import Stage
from botorch_tv.simulation.captured.play import Play
from botorch_tv.simulation.captured.replayed import Recorder, Replayed
from botorch_tv.simulation.in_numbers.known import Known


class Player:
    """Some trials of one strategy.

    Trials hold arms in slots. Room for those of all rounds would make every round pass over
    numbers that nobody uses, so there are more slots as they are needed, and rounds are then
    recorded anew.

    Args:
        known: The strategy in numbers.
        basis: Coordinates of its kernel.
        stage: What it plays on.
        trials: How many.
        horizon: Rounds T.
        recorder: Records its rounds.
    """

    def __init__(
        self,
        known: Known,
        basis: Basis,
        stage: Stage,
        *,
        trials: int,
        horizon: int,
        recorder: Recorder,
    ) -> None:
        self._known, self._recorder = known, recorder
        own = basis.to(basis.variance.dtype, basis.variance.device)
        self.state = Play(
            own,
            known.rules,
            stage,
            trials=trials,
            horizon=horizon,
            slots=min(FIRST_SLOTS, known.slots),
        )
        self._used = 0  # slots, at most
        self._record(self.state.written)

    def play_round(self, step: int) -> None:
        """A round.

        Args:
            step: Its number from 0.
        """
        rules, state = self._known.rules, self.state
        if rules.period and step > 0 and step % rules.period == 0:
            self._forget()
            state.since.fill_(1)
        self._reserve()
        self._round()
        oldest = step - rules.window
        if rules.window == 0 or oldest < 0:
            return
        if step % REFRESH_ROUNDS != 0:
            self._leave_out()
            return
        self._forget()
        state.place.fill_(oldest + 1)
        for _ in range(rules.window):
            self._reserve()
            self._observe_again()

    def log(self) -> dict[str, np.ndarray]:
        """What was recorded, by name, each `trials x rounds`."""
        log, period = self.state.log, self._known.rules.period
        resets = log.resets.T.cpu().numpy()
        if period:
            resets[:, period::period] = True
        return {
            "index": log.arm.T.cpu().numpy().astype(np.int32),
            "regret": np.ascontiguousarray(log.regret.T.cpu().numpy()),
            "resets": np.ascontiguousarray(resets),
        }

    def _forget(self) -> None:
        self.state.forget()
        self._used = 0

    def _record(self, written: Sequence[Tensor] = ()) -> None:
        """Record rounds; with more slots, when copies take more memory, nothing is compared."""
        state, recorder = self.state, self._recorder
        self._round = Replayed(state.play, recorder, written)
        self._leave_out = Replayed(state.leave_out, recorder, written)
        self._observe_again = Replayed(state.observe_again, recorder, written)

    def _reserve(self) -> None:
        """Make sure that every trial has a slot for another arm."""
        state = self.state
        if self._used == state.slots < self._known.slots:
            # Reading the count makes Python wait, so it is read only now and then.
            self._used = int(state.count.max())
            if self._used > state.slots - FIRST_SLOTS:
                state.give_room(min(2 * state.slots, self._known.slots))
                self._record()
        self._used += 1
