"""`make bench-instructions`: what is read of callgrind, and what is made of it."""

import shutil
import subprocess
import sys

import pytest

from bench import callgrind, instructions
from bench.callgrind import AbsentError, Counted, Counter, CountError, totals
from bench.instructions import KINDS, Figures, report
from bench.upstream import TOKENS

DUMP = "version: 1\nevents: Ir\nsummary: 6503379\n\nfn=(1) main\n16 400\ntotals: 6505431\n"
WORKS = "print('up', flush=True)\nwhile True:\n    n = int(input())\n    for _ in range(n): pass\n    print('done', flush=True)\n"


def test_totals_of_a_dump() -> None:
    """The last line's figure, which has what lies outside of all functions too."""
    assert totals(DUMP) == 6_505_431


def test_a_dump_that_is_cut_off() -> None:
    """It is told, and never taken for a small figure."""
    with pytest.raises(CountError):
        totals(DUMP.partition("totals")[0])


def test_timers_are_taken_off() -> None:
    """As many as in the same time without requests; what is left is shared among the requests."""
    idle = Counted(3_000_000, 3.0).a_second
    assert Counted(12_000_000, 2.0).each(10, idle) == pytest.approx(1_000)


def test_a_token_is_a_share_of_its_stream() -> None:
    """Fewer streams than other requests, and every token of them counts."""
    assert KINDS["token"].requests(60) == 3
    assert KINDS["token"].requests(1) == 1
    assert KINDS["token"].units(3) == 3 * TOKENS
    assert KINDS["auto"].units(KINDS["auto"].requests(60)) == 60


def test_ratios_are_to_the_first() -> None:
    """Medians over the rounds, and each other column's ratio beside it."""
    told = {
        "ours": Figures({"rules": 1000.0}, {"auto": [900.0, 1000.0, 1300.0]}),
        "theirs": Figures({"rules": 500.0}, {"auto": [1500.0, 1500.0, 1600.0]}),
    }
    lines = report(told).splitlines()
    assert lines[2] == "| a request of `auto`, judged by the rules | 1,000 (900 to 1,300) | 1,500 (1,500 to 1,600) | 1.50 |"
    assert lines[3].endswith("| 1,000 (1,000 to 1,000) | 500 (500 to 500) | 0.50 |")


def test_no_valgrind(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what is missing and how to have it, and nothing is left running."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(AbsentError, match="apt install valgrind"):
        callgrind.command(["true"], instructions.ROOT)
    assert instructions.main(["--kinds", "auto"]) == 1
    assert "valgrind" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--kinds", "nothing"], ["--kinds", ""], ["--against", "/nowhere"], ["--python", "/nowhere"]])
def test_what_cannot_be_counted(words: list[str]) -> None:
    """It is a user's mistake, told before anything is started."""
    with pytest.raises(SystemExit) as error:
        instructions.arguments(words)
    assert error.value.code == 2


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_twice_the_work_is_twice_the_count(tmp_path) -> None:
    """A real program under callgrind: only what it does between `zero` and `count` is counted, in proportion."""
    command = callgrind.command([sys.executable, "-S", "-c", WORKS], tmp_path)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        try:
            counter = Counter(program.pid, tmp_path)

            def work(loops: int) -> None:
                program.stdin.write(b"%d\n" % loops)
                program.stdin.flush()
                assert program.stdout.readline() == b"done\n"

            def count(loops: int) -> int:
                counter.zero()
                work(loops)
                return counter.count().instructions

            assert program.stdout.readline() == b"up\n"
            work(100_000)
            counter.on()
            work(10)
            none, once, twice = count(0), count(10_000), count(20_000)
            counter.off()
            work(10_000)
            assert (twice - none) / (once - none) == pytest.approx(2, rel=0.05)
            assert counter.count().instructions < (once - none) / 2
        finally:
            program.kill()
