"""Counts of several workers: every interleaving of counting, reporting and dying sums up, and what is shown never falls."""

import logging
import math
import os
import subprocess
import sys
from collections import Counter as Multiset
from pathlib import Path

import msgspec
import pytest
from gateway_talk import samples, total
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from gateway.metrics import Metrics
from gateway.tally import Tally, register
from gateway.tallyfile import TallyFile

WHERE = ("m", "small", "ok")


def send(worker, tally, name="w1"):
    """A report by a connection that works."""
    for part in worker.take():
        if names := tally.absorb(name, part):
            worker.only(names)


def packed(*rows):
    return msgspec.msgpack.encode(rows)


def test_a_report_has_what_changed_and_an_idle_worker_has_none():
    """The first report has every row, the next ones only those that moved, and without a count there is nothing to send."""
    worker, node = Metrics(worker=True), Metrics()
    tally = Tally(node)
    worker.requests.add(("acme", *WHERE), 3)
    worker.overhead.observe((), 0.0003)
    send(worker, tally)
    assert worker.take() == []
    worker.requests.add(("acme", *WHERE))
    (part,) = worker.take()
    assert msgspec.msgpack.decode(part) == [["requests", ["acme", *WHERE], [4.0]]]
    tally.absorb("w1", part)
    assert node.requests.values == worker.requests.values
    assert node.overhead.values == worker.overhead.values


def test_rows_of_the_start_are_there_once():
    """The zero rows of every worker are the zero rows of the node, and the first scrape has all families."""
    node = Metrics()
    before = samples(node.exposition().decode()).keys()
    for name in ("w1", "w2"):
        send(Metrics(worker=True), Tally(node), name)
    found = samples(node.exposition().decode())
    assert found.keys() == before
    assert total(found, "tiergate_tokens_total") == 0


def test_a_large_report_comes_in_parts():
    """Thousands of rows are several messages, none of them large, and together they are everything."""
    worker, node = Metrics(worker=True), Metrics()
    for number in range(2500):
        worker.decisions.add((f"t{number}", "score"))
    parts = worker.take()
    assert len(parts) == 3
    assert max(map(len, parts)) < 100_000
    tally = Tally(node)
    for part in parts:
        tally.absorb("w1", part)
    assert node.decisions.values == worker.decisions.values


def test_two_workers_with_200_tenants_each_make_no_400_series():
    """The node shows the first 200 and `other`; nothing is lost, and the 200 are complete whoever counted them."""
    node = Metrics()
    tally = Tally(node)
    one, two = Metrics(worker=True), Metrics(worker=True)
    for number in range(200):
        one.requests.add((one.tenant(f"a{number}"), *WHERE))
    for number in range(200):
        two.requests.add((two.tenant(f"b{number}"), *WHERE))
    two.requests.add((two.tenant("a7"), *WHERE))
    for worker, name in ((one, "w1"), (two, "w2")):
        send(worker, tally, name)
    assert len(node.requests.values) == 201
    assert node.requests.values["other", *WHERE] == 200
    assert node.requests.values["a7", *WHERE] == 2
    assert (two.tenant("a9"), two.tenant("b9"), two.tenant("late")) == ("a9", "other", "other")
    assert tally.absorb("w2", packed(("requests", ("b9", *WHERE), (5.0,)))) == ()  # told once


def test_a_new_connection_is_told_anew():
    """A worker that comes back names all tenants again, and is told again which ones are shown; a new node may show others."""
    first, second = Metrics(), Metrics()
    first._max_tenants = second._max_tenants = 1
    worker = Metrics(worker=True)
    for node, tenant in ((first, "a"), (second, "b")):
        tally = Tally(node)
        tally.absorb("w0", packed(("requests", (tenant, *WHERE), (1.0,))))
        for _ in range(2):
            worker.again()
            worker.requests.add((worker.tenant(tenant), *WHERE))
            send(worker, tally)
            assert (worker.tenant(tenant), worker.tenant("z")) == (tenant, "other")
            tally.gone("w1")
        assert node.requests.values[tenant, *WHERE] == 3


def test_requests_of_nobody_are_no_tenant():
    """The empty tenant and `other` keep their labels and take no place from a tenant."""
    node = Metrics()
    tally = Tally(node)
    tally.absorb("w1", packed(("requests", ("", *WHERE), (2.0,)), ("requests", ("other", *WHERE), (3.0,))))
    assert node.requests.values == {("", *WHERE): 2.0, ("other", *WHERE): 3.0}
    assert node.tenants == ()


@pytest.mark.parametrize(
    "part",
    [
        b"",
        b"\xc1",
        b"\x93\x01",
        b"\x91" * 100_000,
        msgspec.msgpack.encode({"requests": 1}),
        bytes(9 * 1024 * 1024),
        packed(("no_such_family", (), (1.0,))),
        packed(("requests", ("acme", *WHERE), (1.0, 2.0))),
        packed(("requests", ("acme",), (1.0,))),
        packed(("overhead", (), (1.0,))),
        packed(("overhead", (), (1.0,) * 99)),
        packed(("tokens_saved", (), ())),
        packed(("tokens_saved", (), (-1.0,))),
        packed(("tokens_saved", (), (math.nan,))),
        packed(("overhead", (), (1.0,) * 6 + (math.nan,) + (1.0,) * 7)),
        packed(("tokens_saved", (), (math.inf,))),
        packed(("tokens_saved", (), (1e300,))),
        packed(("requests", ("x" * 1000, *WHERE), (1.0,))),
        packed(("requests", ("acme", "m", "small", 7), (1.0,))),
        packed(("collect", (), (1.0,))),
    ],
)
def test_what_is_no_report_changes_nothing(part, caplog):
    """Noise, unknown families, wrong widths and impossible numbers are ignored, with one line for all of a worker's."""
    node = Metrics()
    tally = Tally(node)
    before = {name: dict(family.rows()) for name, family in node.counted().items()}
    with caplog.at_level(logging.WARNING, "tiergate"):
        for _ in range(3):
            assert tally.absorb("w1", part) == ()
    assert {name: dict(family.rows()) for name, family in node.counted().items()} == before
    assert len(caplog.records) == 1
    assert len(caplog.text) < 400


def test_a_good_row_beside_bad_ones_counts():
    """A worker of another release loses only what this one does not know."""
    node = Metrics()
    Tally(node).absorb("w1", packed(("new_family", (), (1.0,)), ("tokens_saved", (), (7,)), ("overhead", (), (1.0,))))
    assert node.tokens_saved.values == {(): 7.0}


def test_nobody_makes_rows_without_end(monkeypatch):
    """A worker's rows, the workers, and those that left are each bounded; rows that are there still rise."""
    monkeypatch.setattr("gateway.tally._MAX_ROWS", 10)
    monkeypatch.setattr("gateway.tally._MAX_WORKERS", 5)
    monkeypatch.setattr("gateway.tally._MAX_LEFT", 2)
    node = Metrics()
    tally = Tally(node)
    for number in range(30):
        tally.absorb("w1", packed(("decisions", (f"t{number}", "score"), (1.0,))))
    tally.absorb("w1", packed(("decisions", ("t3", "score"), (5.0,))))
    assert len(node.decisions.values) == 10
    assert node.decisions.values["t3", "score"] == 5
    for number in range(30):
        tally.absorb(f"more{number}", packed(("tokens_saved", (), (1.0,))))
    assert node.tokens_saved.values == {(): 4.0}
    for name in ("w1", "more0", "more1", "more2"):
        tally.gone(name)
    tally.absorb("new", packed(("tokens_saved", (), (1.0,))))
    assert node.tokens_saved.values == {(): 5.0}


@pytest.mark.parametrize("kept", [b"", b"\xc1", b"\x90", b"\x91" * 100_000, msgspec.msgpack.encode([["a"], [], 7])])
def test_what_was_not_kept_is_not_restored(kept):
    """A state that cannot be read is none, and counting begins at nothing."""
    assert not Tally(Metrics()).restore(kept)


def test_the_dispatchers_own_counts_are_kept_too():
    """What the process itself counted is in the state, beside the reports, and is restored once."""
    node = Metrics()
    node.queue_wait.observe(("m", "batch"), 0.2)
    node.tokens_saved.add((), 9)
    tally = Tally(node)
    tally.absorb("w1", packed(("tokens_saved", (), (1.0,))))
    again = Metrics()
    assert Tally(again).restore(tally.keep())
    assert {name: dict(family.rows()) for name, family in again.counted().items()} == {
        name: dict(family.rows()) for name, family in node.counted().items()
    }


def test_the_families_of_a_node():
    """`tiergate_workers` and `tiergate_restarts_total` are read when scraped."""
    node, restarts = Metrics(), {"dispatcher": 0, "worker": 0}
    register(node, lambda: 4, lambda: restarts)
    restarts["worker"] += 2
    found = samples(node.exposition().decode())
    assert total(found, "tiergate_workers") == 4
    assert total(found, "tiergate_restarts_total", process="worker") == 2
    assert total(found, "tiergate_restarts_total", process="dispatcher") == 0
    assert "# TYPE tiergate_restarts_total counter" in node.exposition().decode()


def test_a_scrape_is_answered_though_nothing_can_be_stored(caplog):
    """Without room for the state the counts are shown all the same, and the log says why it is not kept."""

    def full(_data):
        raise OSError(28, "No space left on device")

    assert b"tiergate_requests_total" in Tally(Metrics()).page(full)
    assert "No space left" in caplog.text


def test_a_file_gives_what_was_written_last():
    """Each text replaces the one before, whatever their lengths, and there is nothing before the first."""
    file = TallyFile()
    assert file.read() == b""
    for text in (b"", b"short", b"long" * 500_000, b"", b"end"):
        file.write(text)
        assert file.read() == text
    with pytest.raises(OSError, match="too many"):
        file.write(bytes(256 * 1024 * 1024))
    assert file.read() == b"end"
    file.close()


@pytest.mark.parametrize("header", [True, False])
def test_a_write_that_was_cut_short_leaves_the_one_before(header, monkeypatch):
    """A process that dies while it writes, in the text or before the header, loses only what it was about to write."""
    file = TallyFile()
    file.write(b"first")
    file.write(b"second, and longer")
    put, calls = TallyFile._put, []

    def dies(self, data, start):
        calls.append(start)
        if header:
            put(self, data, start) if len(calls) == 1 else None
        else:
            put(self, data[: len(data) // 2], start)
        if len(calls) == 1 + header:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TallyFile, "_put", dies)
        with pytest.raises(KeyboardInterrupt):
            file.write(b"third")
    assert file.read() == b"second, and longer"
    file.write(b"fourth")
    assert file.read() == b"fourth"
    file.close()


def test_a_child_writes_what_its_parent_reads():
    """The file is shared over a fork, and the next writer goes on where the last one ended."""
    code = """
import os
from gateway.tallyfile import TallyFile
file = TallyFile()
file.write(b"parent")
for text in (b"child", b"next child", b"third child"):
    child = os.fork()
    if not child:
        file.write(text)
        os._exit(0)
    os.waitpid(child, 0)
    assert file.read() == text
assert [file._header(place)[0] for place in (0, 1)] == [4, 3]
"""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, timeout=60)


TENANTS = [f"t{number}" for number in range(6)]
SHOWN = 3


class Node(RuleBasedStateMachine):
    """Workers that count, report, lose connections and die; a dispatcher that dies and is replaced; scrapes in between.

    `counted` is what each worker has counted, `arrived` what of it the dispatchers have taken in, `kept` what of that was
    stored with a scrape.
    """

    workers = Bundle("workers")

    @initialize(target=workers)
    def begin(self):
        self.counted, self.arrived, self.stored = {}, {}, {}
        self.live, self.late = {}, []
        self.file = TallyFile()
        self.last = {}
        self.started = self.deaths = 0
        self.anew()
        return multiple()

    def anew(self):
        self.node = Metrics()
        self.node._max_tenants = SHOWN
        self.tally = Tally(self.node)
        if kept := self.file.read():
            assert self.tally.restore(kept)

    @rule(target=workers)
    def start(self):
        self.started += 1
        name = f"worker-{self.started}"
        self.live[name] = Metrics(worker=True)
        self.counted[name], self.arrived[name] = Multiset(), Multiset()
        return name

    @rule(name=workers, tenant=st.sampled_from(TENANTS), times=st.integers(1, 5))
    def count(self, name, tenant, times):
        worker = self.live[name]
        for _ in range(times):
            worker.requests.add((worker.tenant(tenant), *WHERE))
            worker.duration.observe(("m", "small"), 0.25 * times)
            self.counted[name][tenant] += 1

    @rule(name=workers)
    def report(self, name):
        self.deliver(name, self.live[name].take())

    def deliver(self, name, parts):
        for part in parts:
            if names := self.tally.absorb(name, part):
                self.live[name].only(names)
        self.late += [(name, part) for part in parts]
        self.arrived[name] = self.counted[name].copy()

    @rule(name=workers)
    def connection_breaks(self, name):
        """What was under way is lost; the worker comes back with all it has."""
        self.live[name].take()
        self.tally.gone(name)
        self.live[name].again()
        self.report(name)

    @rule(data=st.data())
    def old_report_comes_again(self, data):
        still = [(name, part) for name, part in self.late if name in self.live]
        if still:
            name, part = data.draw(st.sampled_from(still))
            self.tally.absorb(name, part)

    @rule(name=consumes(workers))
    def die(self, name):
        del self.live[name]
        self.tally.gone(name)

    @rule()
    def scrape(self):
        for name in self.live:
            self.report(name)
        page = self.tally.page(self.file.write)
        self.stored = {name: counts.copy() for name, counts in self.arrived.items()}
        found = samples(page.decode())
        shown = {key: value for key, value in found.items() if key[0].startswith("tiergate_")}
        assert {key for key, value in self.last.items() if value > shown[key]} == set()
        self.last = shown

    @rule()
    def dispatcher_dies(self):
        """Before the first scrape nobody has seen anything: as a node that has just begun."""
        self.deaths += 1
        if not self.file.read():
            self.scrape()
        self.late = []
        self.anew()
        for name in self.arrived:
            if name not in self.live:
                self.arrived[name] = self.stored.get(name, Multiset())
        for name, worker in self.live.items():
            worker.again()
            self.report(name)

    def teardown(self):
        if hasattr(self, "file"):
            self.file.close()

    @invariant()
    def the_sums_are_what_arrived(self):
        arrived = sum(self.arrived.values(), Multiset())
        shown = {labels[0]: value for labels, value in self.node.requests.values.items()}
        assert sum(shown.values()) == arrived.total()
        assert sum(sum(row[:-1]) for row in self.node.duration.values.values()) == arrived.total()
        assert len(shown.keys() - {"other"}) <= SHOWN
        named = {name: (shown.get(name, 0), arrived[name]) for name in self.node.tenants}
        # A worker that was told whom the last dispatcher shows has counted the others as `other`; the next may show them.
        assert all(here == there or (self.deaths and here < there) for here, there in named.values()), named


Node.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestNode = Node.TestCase
