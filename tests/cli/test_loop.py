"""`botorch-tv loop`: asks and tells of several processes, some of them killed."""

import io
import json
import math
import random
import re
import signal
import time
from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest
from gpytorch.kernels import RBFKernel
from helpers.child_study import Child, ask_and_tell

from botorch_tv import Choice, Loop, adaptive_gp_ucb
from botorch_tv.cli import command as cli
from botorch_tv.cli.loop import _time_reader
from botorch_tv.strategies import random_search


def run(*argv):
    return cli.main(["loop", *argv])


@pytest.fixture
def call(capsys):
    """Runs a command and returns its output, or the error if it fails."""

    def called(*argv, fails=False):
        capsys.readouterr()
        assert run(*argv) == (cli.EXIT_ERROR if fails else 0)
        printed = capsys.readouterr()
        return printed.err if fails else printed.out

    return called


@pytest.fixture
def file(tmp_path):
    """The file of a loop of rounds."""
    assert run("new", str(tmp_path / "loop.json"), "x=0:1", "--unit", "rounds") == 0
    return str(tmp_path / "loop.json")


def test_a_loop_from_the_command_line(tmp_path, call):
    file = str(tmp_path / "loop.json")
    call("new", file, "temperature=20:80", "n=1:99:int:log", "--pending", "2", "--minimize")
    asked = json.loads(call("ask", file, "--time", "2026-03-01T08:00+00:00"))
    assert list(asked["point"]) == ["temperature", "n"]
    assert (asked["number"], asked["time"]) == (1, "2026-03-01T08:00:00+00:00")
    call("ask", file, "--time", "2026-03-01T09:00+00:00")
    call("tell", file, "-2.5", "--number", "1", "--time", "2026-03-01T10:00+00:00")
    call("tell", file, "--failed")
    output = call("status", file, "--plot", str(tmp_path / "loop.png"))
    assert "2 measurements from time 2026-03-01 09:00:00+00:00" in output
    assert "1 failed" in output
    assert (tmp_path / "loop.png").exists()
    loop = Loop.load(file, adaptive_gp_ucb(maximize=False))
    assert loop.table()["y"].tolist()[1] == -2.5


def test_values_as_programs_print_them(file, call):
    values = ["-8.5e-06", "-.5", "-3", "1e3", "-2E+2"]
    for y in values:
        call("ask", file)
        call("tell", file, y)
    assert Loop.load(file).history.y.tolist() == [float(y) for y in values]


def test_a_suspect_reading_is_named(tmp_path, call, capsys):
    path = tmp_path / "loop.json"
    loop = Loop({"x": (0, 1)})
    for n in range(7):
        loop.observe({"x": n / 6}, 10 * math.exp(-(((n / 6 - 0.75) / 0.2) ** 2)))
    loop.save(path)
    named = r"(botorch-tv: )?Reading {} lies [\d.]+ sd from its prediction"
    assert run("observe", str(path), "11", "x=0.2") == 0
    assert re.match(named.format(-8), capsys.readouterr().err)
    call("ask", str(path))
    assert run("tell", str(path), "-40") == 0
    assert re.match(named.format(1), capsys.readouterr().err)
    assert re.search(named.format(1), call("status", str(path)))


TABLE = """\
when;remark;kind;x;n;gain
2026-03-01T09:00;Ann;salt;0,25;3;-2,5
2026-03-01T08:00;;sand;0,75;4;-8e-3
2026-03-01T10:00;;sand;0,5;1;
"""


def test_a_table_is_imported_and_printed(tmp_path, call):
    file, again = str(tmp_path / "loop.json"), str(tmp_path / "again.json")
    (tmp_path / "past.csv").write_text(TABLE)
    for item in (file, again):
        call("new", item, "kind=sand,salt", "x=0:1", "n=1:9:int")
    columns = (str(tmp_path / "past.csv"), "--y", "gain", "--times", "when")
    output = "Imported: 2 measurements; 1 row without gain skipped\nIgnored columns: remark\n"
    assert call("import", file, *columns) == output
    frame = Loop.load(file).table()
    assert frame[["kind", "x", "n", "y"]].to_numpy().tolist() == [
        ["sand", 0.75, 4, -8e-3],
        ["salt", 0.25, 3, -2.5],
    ]
    assert frame["time"].tolist() == [datetime(2026, 3, 1, 8), datetime(2026, 3, 1, 9)]
    (tmp_path / "back.csv").write_text(call("table", file))
    call("import", again, str(tmp_path / "back.csv"))
    assert Loop.load(again).table().equals(frame)
    grown = TABLE + "2026-03-01T11:00;;sand;0,75;4;-8e-3\n"  # as at 8, and by no means a copy
    (tmp_path / "past.csv").write_text(grown)
    output = "Imported: 1 measurement; 2 already present; 1 row w"
    assert call("import", again, *columns).startswith(output)
    assert Loop.load(again).table()["time"].iloc[-1] == datetime(2026, 3, 1, 11)


@pytest.mark.parametrize(
    "command",
    [
        ("ask", "--time", "2026-03-01"),
        ("observe", "1", "x=0.5", "--time", "2026-03-01"),
        ("import", "past.csv"),
    ],
    ids=lambda command: command[0],
)
def test_the_first_date_of_a_loop_of_rounds_sets_hours_with_a_note(
    command, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("past.csv").write_text("time,x,y\n2026-03-01,0.5,1\n")
    name, *rest = command
    for unit, output in (
        ("rounds", "From now on, times are dates, counted in hours"),
        ("days", ""),
    ):
        assert run("new", f"{unit}.json", "x=0:1", "--unit", unit) == 0
        capsys.readouterr()
        assert run(name, f"{unit}.json", *rest) == 0
        assert output in (summary := capsys.readouterr().err)
        assert bool(output) == bool(summary)
        assert run("ask", f"{unit}.json", "--pending", "2", "--time", "2026-03-02") == 0
        assert capsys.readouterr().err == ""


@pytest.mark.full
def test_output_for_programs(file, tmp_path, call):
    past = tmp_path / "past.csv"
    past.write_text("x,y\n" + "".join(f"{x / 8},{-((x / 8 - 0.5) ** 2)}\n" for x in range(9)))
    call("recommend", file, "--time", "-1e3")

    def read(command, *options):
        return json.loads(call(command, file, *options))

    assert read("recommend") == {"point": {"x": 0.5}, "mean": None, "sd": None}
    call("import", file, str(past))
    asked = read("ask")
    summary, best = read("status", "--json"), read("recommend")
    assert (summary["measurements"], summary["failed"], summary["open"]) == (9, 0, [asked])
    assert summary["best"] == best
    loop = Loop.load(file)
    assert summary["words"] == loop.describe()
    posterior = loop.posterior(best["point"])
    assert best["point"] == loop.recommend()
    assert best["mean"] == pytest.approx(float(posterior.mean))
    assert best["sd"] == pytest.approx(float(posterior.variance.sqrt()))
    assert read("recommend", "--time", "500")["sd"] > best["sd"]
    call("discard", file, "--number", "1")
    assert read("status", "--json")["open"] == []
    loop = Loop.load(file)
    assert loop.table()["ok"].all()
    for number in range(40):
        loop.observe({"x": number / 39}, ok=False)
    loop.save(file)
    summary = read("status", "--json")
    assert summary["best"] is None
    assert "more likely to fail" in summary["words"]


def test_choices_are_made_asked_for_and_observed(tmp_path, call):
    file = str(tmp_path / "loop.json")
    output = call("new", file, "temperature=-20:80:0.5", "metal=steel,a=b,7", "n=1:9:int")
    assert "metal: Choice('steel', 'a=b', '7')" in output
    assert "temperature: Float(-20, 80, step=0.5)" in output
    assert "n: Integer(1, 9)" in output
    for metal in ("steel", "a=b", "7"):
        call("observe", file, "-1.5", "temperature=-3", f"metal={metal}", "n=2")
    assert Loop.load(file).table()["metal"].tolist() == ["steel", "a=b", "7"]
    assert json.loads(call("ask", file))["point"]["metal"] in ("steel", "a=b", "7")
    output = call("observe", file, "1", "temperature=3", "metal=stel", "n=2", fails=True)
    assert "metal is 'stel'; choose from 'steel', 'a=b', '7'" in output


def test_choices_of_a_loop_from_python_are_written_as_python_or_json_has_them(tmp_path, call):
    file = str(tmp_path / "loop.json")
    Loop({"on": Choice(True, False), "size": Choice(1, 2.5, "big", "2")}).save(file)
    for on, size in (("True", "1"), ("false", "2.5"), ("False", '"big"')):
        call("observe", file, "1", f"on={on}", f"size={size}")
    table = Loop.load(file).table()
    assert table["on"].tolist() == [True, False, False]
    assert table["size"].tolist() == [1, 2.5, "big"]
    Loop({"size": Choice(1, "1")}).save(file)
    assert "'size=1' may mean 1 or '1'" in call("observe", file, "1", "size=1", fails=True)


def test_coordinates_without_names(tmp_path, call):
    file = str(tmp_path / "loop.json")
    Loop([(0.0, 1.0), (-5.0, 5.0)], unit="hours").save(file)
    call("observe", file, "2", "x1=-3", "x0=0.5")
    assert Loop.load(file).history.X.tolist() == [[0.5, -3.0]]
    assert "give x0=VALUE x1=VALUE" in call("observe", file, "2", "x0=0.5", fails=True)


def test_loops_that_the_command_line_cannot_run_or_plot(tmp_path, call):
    file = str(tmp_path / "loop.json")
    output = f"{file} does not exist; run botorch-tv loop new"
    for argv in (("status", file), ("ask", file), ("observe", file, "1", "x=1")):
        assert output in call(*argv, fails=True)
    Loop(random_search(kernel=RBFKernel(), noise=0.1), {"x": (0, 1)}).save(file)
    for command in ("status", "ask"):
        assert "or start a new loop with the table" in call(command, file, fails=True)
    Loop({"x": (0, 1)}).save(file)
    output = call("status", file, "--plot", str(tmp_path / "loop.png"), fails=True)
    assert "observe a measurement first" in output


@pytest.mark.full
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_two_processes_that_are_killed_lose_nothing(kills, tmp_path):
    file, done = tmp_path / "loop.json", tmp_path / "done"
    done.touch()
    run("new", str(file), "rate=1e-4:1:log", "layers=1:6:int", "--pending", "1000")
    chance = random.Random(0)

    def begun():
        return Child(ask_and_tell, file, done=done, fails=6)

    def rounds():
        return done.read_text().count("\n")

    workers = [begun(), begun()]
    for kill in range(kills):
        enough, limit = rounds() + 2, time.monotonic() + 240
        while rounds() < enough and time.monotonic() < limit:
            time.sleep(0.01)
        assert rounds() >= enough
        time.sleep(chance.random() * 0.2)
        workers[kill % 2].kill()
        assert workers[kill % 2].process.exitcode == -signal.SIGKILL
        workers[kill % 2] = begun()
    for worker in workers:
        worker.kill()
    loop = Loop.load(file)
    frame = loop.table()
    stored = dict(zip(frame["number"], frame["y"]))
    assert len(stored) == len(frame)
    failed = {number for number, y in stored.items() if math.isnan(y)}
    assert failed == {number for number in stored if number % 6 == 0}
    for line in done.read_text().splitlines():
        number, answer = line.split()
        if answer == "--failed":
            assert int(number) in failed
        else:
            assert stored[int(number)] == float(answer)
    # Each killed worker may have stored an answer without a note.
    assert 0 <= len(frame) - rounds() <= kills + 2
    assert len(loop.open) <= kills + 2
    assert all(isinstance(item, datetime) for item in frame["time"])
    newest = str(json.loads(file.read_text())["asked"] + 1)
    assert run("ask", str(file)) == 0
    assert run("tell", str(file), "--failed", "--number", newest) == 0
    assert run("ask", str(file)) == 0


def test_readings_are_amended_and_removed(file, call):
    for y in (-1, 2, 3):
        call("observe", file, str(y), f"x=0.{abs(y)}")
    call("ask", file)
    call("tell", file, "--failed")
    call("amend", file, "-2.5", "--number", "-1", "--time", "0.5")
    call("amend", file, "--failed", "--number", "-2")
    call("amend", file, "4", "--number", "1")
    call("remove", file, "--number", "-3")
    table = Loop.load(file).table()
    assert table["number"].tolist() == [-1, -2, 1]
    assert table["y"].fillna(99).tolist() == [-2.5, 99, 4]
    assert table["time"].tolist()[0] == 0.5
    before = Path(file).read_text()
    for argv, text in (
        (("amend", file, "3", "--failed", "--number", "1"), "give either the observation Y"),
        (("amend", file, "3", "x=0.5", "--number", "1"), "amend corrects the observation"),
        (("amend", file, "--number", "1"), "measurement 1 is 4.0 already; give another y"),
        (("remove", file, "--number", "-3"), "give a number from the table"),
        (("remove", file, "--number", "8"), "give a number from the table"),
        (("tell", file, "1", "--number", "1"), "amend an answer"),
    ):
        assert text in call(*argv, fails=True)
    assert Path(file).read_text() == before


def test_failed_observations(file, call):
    call("observe", file, "--failed", "x=0.5", "--time", "3")
    call("observe", file, "-.25", "x=0.25", "--time", "4")
    assert Loop.load(file).table()["y"].fillna(99).tolist() == [99, -0.25]
    for argv in (("--failed", "1", "x=0.5"), ("x=0.5",)):
        output = call("observe", file, *argv, fails=True)
        assert "give either the observation Y or --failed" in output
    output = call("observe", file, "nan", "x=0.5", fails=True)
    assert "for a failed measurement pass ok=False, or --failed" in output


@pytest.mark.full
def test_a_printed_table_goes_in_again(file, tmp_path, call):
    """Failures included, once each; neither amended nor removed readings come back."""
    other, table = str(tmp_path / "other"), tmp_path / "table.csv"
    for t, y in enumerate((1, 2, None, 3, None)):
        answer = "--failed" if y is None else str(y)
        call("observe", file, answer, f"x=0.{t}", "--time", str(t))
    table.write_text(call("table", file))
    call("new", other, "x=0:1", "--unit", "rounds")
    for summary in ("Imported: 5 measurements\n", "Imported: 0 measurements; 5 already present\n"):
        assert call("import", other, str(table)).startswith(summary)
        assert Loop.load(other).table().equals(Loop.load(file).table())
    call("amend", other, "7", "--number", "-1")
    call("remove", other, "--number", "-5")
    before = Loop.load(other).table()
    call("import", other, str(table))
    assert Loop.load(other).table().equals(before)
    assert len(before) == 4


def test_the_column_ok_of_a_table(file, tmp_path, call):
    table, own = tmp_path / "table.csv", str(tmp_path / "own.json")
    table.write_text("x,y,ok\n0.1,,True\n0.2,9,FALSE\n0.3,,0\n0.4,4,1\n0.5,5,\n")
    output = "Imported: 4 measurements; 1 row without y skipped\n"
    assert call("import", file, str(table)) == output
    assert Loop.load(file).table()["y"].fillna(99).tolist() == [99, 99, 4, 5]
    table.write_text("x,y,ok\n0.1,1,perhaps\n")
    output = call("import", file, str(table), fails=True)
    assert "column 'ok' has 'perhaps'; give True, or False" in output
    call("new", own, "ok=0:1", "--unit", "rounds")
    table.write_text("ok,y\n0.0,1\n")  # a parameter of that name
    call("import", own, str(table))
    assert Loop.load(own).table()["ok (parameter)"].tolist() == [0.0]


@pytest.mark.parametrize(
    ("cells", "options"),
    [
        (("01.11.2026 06:00", "13.11.2026 18:30"), ()),
        (("11/01/2026 06:00 AM", "11/13/2026 06:30 PM"), ()),
        (("1-11-2026 6:00", "13-11-2026 18:30"), ()),
        (("2026/11/01 6:00", "2026/11/13 18:30"), ()),
        (("01.11.2026 06:00", "13.11.2026 18:30", "n/a"), ("--date-format", "%d.%m.%Y %H:%M")),
        (("11/01/2026 06:00 AM",), ("--date-format", "%m/%d/%Y %I:%M %p")),
    ],
)
def test_dates_of_spreadsheets(cells, options, tmp_path, call):
    """The row without a time has no observation either."""
    file, table = str(tmp_path / "loop.json"), tmp_path / "table.csv"
    call("new", file, "x=0:1")
    rows = [f"{cell};0,5;{'' if cell == 'n/a' else 1}\n" for cell in cells]
    table.write_text("time;x;y\n" + "".join(rows))
    call("import", file, str(table), *options)
    expected = [datetime(2026, 11, 1, 6), datetime(2026, 11, 13, 18, 30)]
    assert list(Loop.load(file).history.times) == expected[: len(cells)]


def test_a_column_of_dates_is_read_as_it_was_written_or_refused():
    chance, refused = random.Random(0), 0
    forms = ("%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M %p", "%d/%m/%Y", "%m-%d-%Y %H:%M:%S", "%Y/%m/%d")
    for _ in range(100):
        form, most = chance.choice(forms), chance.choice((12, 31))
        days = [chance.randint(1, most) for _ in range(4)]
        dates = [datetime(2026, chance.choice((1, 3, 5, 7, 8, 10, 12)), day) for day in days]
        dates = [date.replace(hour=6 * ("%H" in form or "%I" in form)) for date in dates]
        cells = [date.strftime(form) for date in dates]
        if max(days) > 12 or form == "%Y/%m/%d" or all(d.day == d.month for d in dates):
            read = _time_reader(pd.Series(cells), None)
            assert [read(cell) for cell in cells] == dates
        else:
            refused += 1
            with pytest.raises(ValueError, match="may begin with the day or the month"):
                _time_reader(pd.Series(cells), None)
    assert refused > 0


def test_rows_without_an_observation_can_be_failures(file, tmp_path, call):
    table = tmp_path / "table.csv"
    table.write_text("x,y\n0.1,\n0.2,n/a\n0.3,1\n")
    assert "1 measurement; 2 rows without y skipped" in call("import", file, str(table))
    output = call("import", file, str(table), "--missing", "failed")
    assert output == "Imported: 2 measurements; 1 already present\n"
    assert Loop.load(file).table()["ok"].tolist() == [True, False, False]


@pytest.mark.few(1)
@pytest.mark.parametrize("encoding", ["ascii", "cp437", "utf-8"])
def test_output_in_every_encoding_of_a_terminal(encoding, tmp_path, monkeypatch):
    file, stream = str(tmp_path / "loop.json"), io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr("sys.stdout", stream)
    assert run("new", file, "x ≤=0:1", "Härte=weich,härter,\udcff", "--unit", "rounds") == 0
    for number in range(4):
        assert run("observe", file, str(number), f"x ≤=0.{number}", "Härte=härter") == 0
    for command in ("status", "table", "recommend"):
        assert run(command, file) == 0
    stream.flush()
    printed = stream.buffer.getvalue()
    for text in ("± 2 sd", "'härter', '\\udcff'", "x ≤ 0.3", ",härter,"):
        assert text.encode(encoding, "backslashreplace") in printed


def test_measurements_are_repeated_as_they_were_understood(file, call):
    call("ask", file, "--time", "3")
    assert call("tell", file, "8.8") == "Measurement 1: x 0.5; y 8.8; time 3\n"
    assert (
        call("observe", file, "--failed", "x=1e-3") == "Measurement -1: x 0.001; failed; time 4\n"
    )
    output = call("amend", file, "-2", "--number", "-1", "--time", "2.5")
    assert output == "Measurement -1: x 0.001; y -2; time 2.5\n"
    assert "'8,8' is not a number; write it with a decimal point, such as 8.8" in call(
        "tell", file, "8,8", fails=True
    )


def test_parameters_are_held_queued_and_set_otherwise(tmp_path, call):
    file = str(tmp_path / "loop.json")
    call("new", file, "x=0:1", "metal=steel,brass", "n=1:8:int", "--unit", "rounds")
    call("enqueue", file, "x=0.25", "metal=brass", "n=3")
    held = ("--fixed", "x=0.2", "metal=steel")
    made = [json.loads(line) for line in call("ask", file, "--n", "3", *held).splitlines()]
    assert [suggestion["number"] for suggestion in made] == [1, 2, 3]
    assert {(made["point"]["x"], made["point"]["metal"]) for made in made} == {(0.2, "steel")}
    own = json.loads(call("ask", file, "--pending", "4"))
    assert own["point"] == {"x": 0.25, "metal": "brass", "n": 3}
    output = call("tell", file, "1", "--number", "4", "--at", "x=0.31", "metal=steel")
    assert output.startswith("Measurement 4: x 0.31, metal steel, n 3; y 1; ")
    assert [s["number"] for s in json.loads(call("status", file, "--json"))["open"]] == [1, 2, 3]
    for argv in (
        ("ask", file, "--fixed", "y=1"),
        ("tell", file, "1", "--number", "1", "--at", "y=1"),
    ):
        output = call(*argv, fails=True)
        assert "'y'" in output
        assert "lists open suggestions" not in output
    assert "lists open suggestions" in call("tell", file, "1", fails=True)


def test_now_is_the_time_of_this_computer(file, tmp_path, call):
    """Without a time, an answer has the time of its suggestion."""
    dated = str(tmp_path / "dated.json")
    call("new", dated, "x=0:1", "--pending", "2")
    for number in ("1", "2"):
        call("ask", dated, "--time", "2026-03-01")
        call("tell", dated, "1", "--number", number, *(("--time", "now") if number == "2" else ()))
    call("observe", dated, "1", "x=0.5", "--time", "now")
    call("amend", dated, "2", "--number", "1", "--time", "now")
    call("ask", dated, "--time", "now")
    call("recommend", dated, "--now", "now")
    present = datetime.now()
    for when in Loop.load(dated).history.times:
        assert abs((when - present).total_seconds()) < 60
    call("ask", file)
    assert "have no 'now'" in call("tell", file, "1", "--time", "now", fails=True)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no such device")
def test_files_that_never_end(file, tmp_path, call):
    for argv in (("status", "/dev/zero"), ("import", file, "/dev/zero")):
        output = "/dev/zero is a device or a pipe, but it must be"
        assert output in call(*argv, fails=True)
    with pytest.raises(ValueError, match="is a folder, but it must be a regular file"):
        Loop.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        Loop.load(tmp_path / "other.json")


def test_a_printed_table_of_parameters_called_as_its_columns_is_taken_in(tmp_path, call):
    old, new, table = str(tmp_path / "old"), str(tmp_path / "new"), tmp_path / "table.csv"
    for file in (old, new):
        call("new", file, "y=0:10", "time=0:1", "--unit", "rounds")
    call("observe", old, "7.5", "y=2", "time=0.25", "--time", "3")
    table.write_text(call("table", old))
    call("import", new, str(table))
    [point], [value] = Loop.load(new).history.points, Loop.load(new).history.y.tolist()
    assert (point["y"], point["time"], value) == (pytest.approx(2.0), pytest.approx(0.25), 7.5)
    table.write_text("y,time\n1,0.5\n")
    assert "needs exactly one column 'y'" in call("import", new, str(table), fails=True)


def test_a_table_without_times_is_counted_once(file, tmp_path, call):
    table = tmp_path / "past.csv"
    table.write_text("x,y\n0.3,1\n0.3,1\n0.4,2\n")
    call("import", file, str(table))
    table.write_text("x,y\n0.3,1\n0.3,1\n0.4,2\n0.5,2\n")
    assert "Imported: 1 measurement; 3 already present" in call("import", file, str(table))
    assert Loop.load(file).history.y.tolist() == [1.0, 1.0, 2.0, 2.0]


EXACTLY = "needs exactly one column"
REFUSED_TABLES = {
    "x,y\n0.5,1": EXACTLY + " 'time', but has 0; its columns are x, y. .* --times",
    "time,X,y\n2026-03-01,1,1": EXACTLY + " 'x', but has 0; .* time, X, y. Name columns like",
    "time,x,x,y\n2026-03-01,1,1,1": EXACTLY + " 'x', but has 2; .* time, x, x, y. .* once each",
    "time,x,y,time\n2026-03-01,1,1,1": EXACTLY + " 'time', but has 2",
    "time,x,y\n2026-03-01,0.5,1\n2026-03-02,2,1": "x is 2.0, .*error is in line 3 of .*past.csv",
    "time,x,y\n2026-03-01,0.5,1\n3,0,1": "time is 3.* with another unit.*The error is in line 3",
    "time,x,y\n2026-03-01,0.5,good": "'good' is not a number; .* The error is in line 2",
    "time,x,y\n01.03.2026,0.5,1": "'01.03.2026' may begin with the day or the month.*--date-format",
    "time,x,y\n03/03/2026,0.5,1\n03/12/2026 06:00 AM,0.5,1": "neither .* line 2",
    "time,x,y\n13.03.2026,0.5,1\n03.13.2026,0.5,1": "--date-format. The error is in line 2",
    "time,x,y\n,0.5,1": "'' is neither a number nor a date",
    "time;x;y\n2026-03-01;0,5;1.000,5": "may have a thousands separator; write all",
    "time;x;y\n2026-03-01;0,5;2.5": "may have a thousands separator; write all",
    "time;x;y\n2026-03-01;1;1,234": "may have a thousands separator; write all",
    "time,x,y": "no rows below its header",
}


@pytest.mark.parametrize("table", REFUSED_TABLES, ids=range(len(REFUSED_TABLES)))
def test_tables_that_are_refused(table, tmp_path, call):
    file, past = tmp_path / "loop.json", tmp_path / "past.csv"
    call("new", str(file), "x=0:1")
    past.write_text(table + "\n")
    before = file.read_bytes()
    assert re.search(REFUSED_TABLES[table], call("import", str(file), str(past), fails=True))
    assert file.read_bytes() == before


COMMA = "a range is missing, or a number has a decimal comma"
REFUSED = {
    "new F x=0:1": "exists; give another name",
    "new G x=0": "'x=0' is not a parameter",
    "new G x=20-80": "'x=20-80' is not a parameter: a range is missing, or a number",
    "new G x=1:0": "'x=1:0' is not a parameter: Float: low is 1.0 and high 0.0, but high must",
    "new G x=0:1:log": "low is 0.0, but it must lie in (0, 1e150); choose another",
    "new G x=1:8:2:int": "integers, and its step is 1; give NAME=LOW",
    "new G x=0:8:0,5": COMMA,
    "new G x=0:1:2": "step is 2.0, but it must be at most 1.0",
    "new G x=0.5:8:int": "bounds of an integer must be integers, and its step is 1; give NAME=LOW",
    "discard F": "open suggestions are: none; give the number of an open suggestion, ask for",
    "new G x=20,5:80,5": COMMA,
    "new G x=1.5:2,5": COMMA,
    "new G x=1e-4:1,5:log": COMMA,
    "observe F 1.5 x=0,5": "x is '0,5', but it must be a number",
    "new G x=0:1:cat": "NAME=LOW:HIGH:int",
    "tell F 1": "open suggestions are: none; give the number of an open suggestion, ask for",
    "tell F one": "'one' is not a number; write it with a decimal point, such as -3.7",
    "observe F 1,5 x=0": "'1,5' is not a number",
    "tell F": "either the observation Y or --failed",
    "ask F --time noon": "such as 2026-03-01T08:30+01:00",
    "ask F --now 3": "the times of this loop are datetimes",
    "ask H": "or set pending to 3",
    "ask H --time 2026-03-01T08:00+00:00": "tell or discard a suggestion by its number",
    "recommend H --time 2026-03-01T08:00+00:00": "the newest measurement was made at 2026-03-02",
    "tell H 1": "give the number",
    "tell H 1 --number 9": "open suggestions are: 2 at",
    "tell H nan --number 2": "or --failed",
    "tell H 2 --number 1": "amend an answer, or observe a point that was not suggested",
    "observe H 1 z=0.5": "'z'",
    "observe H 1 x=one": "x is 'one', but it must be a number from 0 to 1",
    "observe H 1 x": "'x' is not a parameter with a value; give NAME=VALUE",
    "observe H 1 x=0 x=1": "x x: a parameter is given twice",
    "observe H 1 x=0.5 --time 3": "such as 2026-03-01T08:30+01:00",
    "observe H 1 x=0.5 --time 2026-03-01": "such as 2026-03-01T08:30+01:00",
    "observe F 1 x=3": "x is 3.0, but it must be a number from 0 to 1; change it",
    "ask nowhere": "does not exist; run botorch-tv loop new",
    "ask F --when 3": "--when 3 (see botorch-tv --help)",
}


LATE = ("--time", "2026-03-02T08:00+00:00")


@pytest.fixture(scope="module")
def idle_and_busy(tmp_path_factory):
    """The content of a loop that was not asked, and of one with suggestions 2 and 3 open."""
    folder = tmp_path_factory.mktemp("loops")
    idle, busy = folder / "F.json", folder / "H.json"
    run("new", str(idle), "x=0:1")
    run("new", str(busy), "x=0:1", "--pending", "2")
    for command, *argv in (("ask",), ("ask",), ("tell", "1", "--number", "1"), ("ask",)):
        run(command, str(busy), *argv, *LATE)
    return idle.read_bytes(), busy.read_bytes()


@pytest.mark.parametrize("command", REFUSED)
def test_refused(command, idle_and_busy, tmp_path, call):
    """In F nothing was asked; in H suggestion 1 is answered, 2 and 3 are open."""
    idle, busy = tmp_path / "F.json", tmp_path / "H.json"
    idle.write_bytes(idle_and_busy[0])
    busy.write_bytes(idle_and_busy[1])
    names = {"F": str(idle), "H": str(busy)}
    names |= {"G": str(tmp_path / "new.json"), "nowhere": str(tmp_path / "no.json")}
    output = call(*(names.get(word, word) for word in command.split()), fails=True)
    assert REFUSED[command] in output
    # Fixes are commands, not Python.
    assert not re.search(r"\w\(|\+=|suggestion=|datetime\.|loop\.\w+\(", output)
    assert (idle.read_bytes(), busy.read_bytes()) == idle_and_busy


def test_backtest_of_a_table_and_of_a_loop(tmp_path, call):
    table, file = tmp_path / "past.csv", str(tmp_path / "loop.json")
    rows = [f"{x},{'ab'[n % 2]},{2 * n},{x * n}" for n, x in enumerate((0, 1, 4, 2, 3, 1))]
    table.write_text("\n".join(["x,kind,time,loss", *rows, "2,a,13,"]))
    printed = call("backtest", str(table), "--y", "loss")
    assert {"adaptive", "drift", "jumps", "static"} <= set(printed.split())
    assert "has no column 'y'" in call("backtest", str(table), fails=True)
    call("new", file, "x=0:4", "kind=a,b", "--unit", "rounds")
    call("import", file, str(table), "--y", "loss")
    assert call("backtest", file) == printed
