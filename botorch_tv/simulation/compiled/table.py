"""Some trials of a study whose rounds are compiled, like those of a chunk that are not."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np

from botorch_tv.simulation.compiled.kernel import play
from botorch_tv.simulation.compiled.parts import (
    ELAPSED,
    NUMBER,
    SINCE,
    SLOTS,
    Played,
    Scene,
    Trials,
)
from botorch_tv.simulation.compiled.serving import (
    FIRST_SLOTS,
    Service,
    TooManyArms,
    nowhere,
    sides,
)
from botorch_tv.simulation.in_numbers.known import MOST_SLOTS
from botorch_tv.simulation.settings import Arrays, Chunk, StudySettings
from botorch_tv.simulation.worlds.base import InFeatures, Objective, OnArms

AT_ONCE = 4
"""Vectors over all arms that objectives are kept in until they are played, per trial."""
UNINTERRUPTED = 2**24
"""Numbers that are passed over before anybody can stop it: some tenths of a second."""


class CompiledTable:
    """Strategies whose rounds are compiled, in the trials of one chunk.

    Rounds are collected, and played once there are some, so that a trial plays many while it is in
    a cache.

    Args:
        settings: The study.
        services: What is played, by label.
        chunk: The trials.
        stop: Once set, nothing more is played.

    Attributes:
        trials: What is known in each trial, by label.
    """

    def __init__(
        self,
        settings: StudySettings,
        services: Mapping[str, Service],
        chunk: Chunk,
        stop: threading.Event,
    ) -> None:
        self.settings, self.services, self.stop = settings, services, stop
        shape = (chunk.trials, settings.horizon)
        self._shape = shape
        self._disturb = settings.errors(chunk)
        self.trials = {label: _beginning(one, shape) for label, one in services.items()}
        self._played = {
            label: Played(
                arm=np.zeros(shape, dtype=np.int32),
                regret=np.zeros(shape),
                resets=np.zeros(shape, dtype=np.bool_),
            )
            for label in services
        }
        self._scene: Scene | None = None

    def play_round(self, step: int, objective: Objective) -> None:
        """One round of every strategy, now or together with some that follow.

        Args:
            step: The round, counted from 0.
            objective: That of every trial.

        Raises:
            TooManyArms: If a trial holds so many that the recursion is faster.
        """
        scene = self._scene = self._scene or self._set(objective)
        place = step % len(scene.given)
        if isinstance(objective, InFeatures):
            scene.given[place] = objective.coordinates.numpy()
        else:
            assert isinstance(objective, OnArms)
            scene.given[place] = objective.values.numpy()
        scene.noise[place] = self._disturb.normal().numpy()
        if place + 1 < len(scene.given) and step + 1 < self.settings.horizon:
            return
        scene = scene._replace(given=scene.given[: place + 1], noise=scene.noise[: place + 1])
        for label, one in self.services.items():
            trials, played = self.trials[label], self._played[label]
            used = int(trials.counts[:, SLOTS].max(initial=0))
            if used > MOST_SLOTS:
                raise TooManyArms(label)
            held = trials.inverse.shape[-1]
            room = one.room(min(used + place + 1, one.slots), held)
            if room > held:
                trials = self.trials[label] = _with_room(trials, room)
            work = (place + 1) * (trials.mean.shape[1] + room**2)
            together = max(1, UNINTERRUPTED // work)
            for first in range(0, self._shape[0], together):
                if self.stop.is_set():
                    return
                last = min(first + together, self._shape[0])
                play(step - place, first, last, scene, one.factors, one.rules, trials, played)

    def finished(self) -> tuple[list[str], Arrays]:
        """What was recorded, and of which strategies in this order."""
        played = list(self._played.values())
        arrays = {
            "index": np.stack([one.arm for one in played]),
            "regret": np.stack([one.regret for one in played]),
            "resets": np.stack([one.resets for one in played]),
        }
        none = np.zeros((len(played), *self._shape), dtype=np.int32)
        return list(self._played), {**arrays, "side_queries": none}

    def _set(self, objective: Objective) -> Scene:
        """The scene of objectives like this one."""
        (any_service, *_) = self.services.values()
        trials, arms = self._shape[0], len(any_service.rules.variance)
        numbers, features, places = arms, nowhere(np.zeros((0, 0))), np.zeros(0, dtype=np.int64)
        if isinstance(objective, InFeatures):
            features, places = sides(objective.basis)
            numbers = len(places)
        rounds = min(max(1, AT_ONCE * arms // numbers), self.settings.horizon)
        given, noise = np.empty((rounds, trials, numbers)), np.empty((rounds, trials))
        return Scene(given, features, places, noise)


def _beginning(service: Service, shape: tuple[int, int]) -> Trials:
    """What is known in each of some trials before the first round."""
    (trials, horizon), rules, slots = shape, service.rules, min(FIRST_SLOTS, service.slots)
    counts = np.zeros((trials, 4), dtype=np.int64)
    counts[:, [SLOTS, NUMBER, SINCE, ELAPSED]] = 0, 0, 1, 0
    return Trials(
        mean=np.zeros((trials, len(rules.variance))),
        variance=np.tile(rules.prior[0] * rules.variance, (trials, 1)),
        places=np.zeros((trials, 2, slots), dtype=np.int64),
        inverse=np.zeros((trials, slots, slots)),
        counts=counts,
        gain=np.zeros(trials),
        y=np.zeros((trials, horizon if rules.window else 0)),
    )


def _with_room(trials: Trials, slots: int) -> Trials:
    """The same with room for more arms; what no trial uses is not written to, nor is it memory."""
    count = len(trials.counts)
    places = np.zeros((count, 2, slots), dtype=np.int64)
    inverse = np.zeros((count, slots, slots))
    for i, used in enumerate(trials.counts[:, SLOTS]):
        places[i, :, :used] = trials.places[i, :, :used]
        inverse[i, :used, :used] = trials.inverse[i, :used, :used]
    return trials._replace(places=places, inverse=inverse)
