"""Threads that share a loop take turns: its log was torn, and its file could not be loaded."""

import copy
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

from gpytorch.kernels import RBFKernel

from botorch_tv.acquisition import Width
from botorch_tv.loop import Loop
from botorch_tv.strategies import tv_gp_ucb

THREADS, ROUNDS = 4, 5


class Slow(Width):
    """Lets other threads go on in the middle of a round."""

    def sqrt_beta(self, facts):
        time.sleep(0.002)
        return 2.0


def made():
    strategy = tv_gp_ucb(kernel=RBFKernel().double(), noise=0.02, epsilon=0.05, width=Slow())
    return Loop(strategy, [(0.0, 1.0), (0.0, 1.0)], pending=THREADS)


def test_threads_take_turns(tmp_path):
    loop = made()

    def work(thread):
        for number in range(ROUNDS):
            suggestion = loop.ask()
            loop.tell(float(suggestion.X.sum()), suggestion=suggestion, ok=number != thread)
            loop.table()
            loop.describe()

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(work, thread) for thread in range(THREADS)]:
            done.result()
    assert sorted(loop.history.number.tolist()) == list(range(1, THREADS * ROUNDS + 1))
    assert loop.open == []
    loop.save(tmp_path / "it.json")
    again = Loop.load(tmp_path / "it.json", loop.strategy)
    assert again.table().drop(columns="time").equals(loop.table().drop(columns="time"))


def test_a_copy_has_a_turn_of_its_own():
    loop = made()
    loop.tell(1.0, suggestion=loop.ask())
    for item in (copy.deepcopy(loop), pickle.loads(pickle.dumps(loop))):
        with loop._lock.lock, ThreadPoolExecutor(1) as pool:
            assert pool.submit(item.ask).result(timeout=60).number == 2
