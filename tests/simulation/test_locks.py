import errno
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from lasting import FILES, Child, files, hold_lock, same, study

from botorch_tv.simulation import executors


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_file_systems_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def unsupported(*_: object, **__: object) -> None:
        raise OSError(number, "Function not implemented")

    monkeypatch.setattr(FileLock, "acquire", unsupported)
    assert same(study(tmp_path, workers=2), study())


def test_patience_with_a_lock_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "PATIENCE_SECONDS", 0.5)
    holder = Child(hold_lock, tmp_path, number=1)
    assert holder.told() == "started"
    assert same(study(tmp_path), study())
    assert len(files(tmp_path)) == FILES
    holder.kill()


def test_an_interrupt_ends_the_wait_for_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = Child(hold_lock, tmp_path, number=1)
    assert holder.told() == "started"
    claim, claimed = executors.Store.claim, 0

    def interrupted(*arguments: Any) -> Any:
        nonlocal claimed
        claimed += 1
        if arguments[2] > 0:  # the others are played
            raise KeyboardInterrupt
        return claim(*arguments)

    monkeypatch.setattr(executors.Store, "claim", interrupted)
    with pytest.raises(KeyboardInterrupt):
        study(tmp_path, workers=2)
    assert len(files(tmp_path)) == FILES - 3
    assert claimed == FILES // 3 + 1
    holder.kill()
