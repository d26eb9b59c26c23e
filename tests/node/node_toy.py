"""A node of toy processes, run as a program: `node_toy.py FOLDER {"workers": 2, ...}`.

What happens is a line of FOLDER/events each: name, pid, event. Files of FOLDER change what the children do: `exit-NAME` holds
the code that a child called NAME ends with before it is ready, `hang-NAME` keeps it from getting ready while it is there, `hold`
from ending while it drains, `deaf` from hearing any signal. `config` holds the config: a word that each child tells, and its end
at once if it is `bad`; one that is `unreadable` is refused.
"""

import contextlib
import json
import logging
import os
import select
import signal
import sys
from pathlib import Path

from gateway.node.child import END, RETIRE
from gateway.node.pulse import Pulse
from gateway.node.sockets import listen
from gateway.node.supervisor import Reread, Supervisor

FOLDER, OPTIONS = Path(sys.argv[1]), json.loads(sys.argv[2])


def tell(name, event):
    with (FOLDER / "events").open("ab", buffering=0) as file:
        file.write(f"{name}\t{os.getpid()}\t{event}\n".encode())


def note(name, event):
    """By the supervisor, whom a test may have left without descriptors."""
    with contextlib.suppress(OSError):
        tell(name, event)


def descriptors():
    """Those that are open: the one that lists them has gone by then."""
    return sorted(number for number in map(int, os.listdir("/dev/fd")) if is_open(number))


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


class Config:
    """The word of the file `config`."""

    def __init__(self):
        self.word = self.before = ""

    def reread(self):
        file = FOLDER / "config"
        found = file.read_text() if file.exists() else ""
        note("config", "looked")
        if found == "unreadable":
            return Reread.REFUSED
        if found == self.word:
            return Reread.SAME
        self.before, self.word = self.word, found
        return Reread.CHANGED

    def revert(self):
        note("config", f"reverted {self.word}")
        self.word = self.before


CONFIG = Config()
PULSE = Pulse(1 + OPTIONS.get("workers", 2))


class Toy:
    """A child: answers each connection with its pid, drains on the signals that real ones drain on."""

    def __init__(self, child, sockets):
        self.child = child
        self.sockets = sockets
        self.hang = FOLDER / f"hang-{child.name.replace(' ', '-')}"
        self.ready = False
        self.draining = False
        self.ended = False

    def run(self):
        name = self.child.name
        tell(name, f"started {len(descriptors())}")
        if (code := FOLDER / f"exit-{name.replace(' ', '-')}").exists():
            print(f"{name} cannot start", file=sys.stderr)
            return int(code.read_text())
        if CONFIG.word:
            tell(name, f"config {CONFIG.word}")
        if CONFIG.word == "bad":
            return 1
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing)
        for number in (END, RETIRE) if self.child.number else (END,):
            signal.signal(number, lambda *_: None)
        while not self.ended and not (self.draining and not (FOLDER / "hold").exists()):
            self.turn(reading)
        tell(name, "ended")
        print("a last word", end="")
        return 0

    def turn(self, signals):
        if not self.ready and not self.hang.exists():
            self.ready = True
            tell(self.child.name, "ready")
            self.child.ready()
            self.child.ready()
        poll = select.poll()
        watched = {sock.fileno(): sock for sock in self.sockets}
        for number in (signals, *watched, *([] if self.draining else [self.child.lifeline])):
            poll.register(number, select.POLLIN)
        PULSE.beat(self.child.number)
        for number, _ in poll.poll(20):
            if number in watched:
                self.answer(watched[number])
            elif number == self.child.lifeline:
                tell(self.child.name, "orphaned")
                self.draining = True
            else:
                for came in os.read(signals, 100):
                    self.signalled(signal.Signals(came))

    def answer(self, sock):
        try:
            taken, _ = sock.accept()
        except BlockingIOError:  # another worker was faster
            return
        with taken:
            taken.setblocking(True)
            taken.sendall(b"%d\n" % os.getpid())

    def signalled(self, number):
        tell(self.child.name, {END: "end", RETIRE: "retire"}[number])
        if (FOLDER / "deaf").exists():
            return
        if number == RETIRE:
            for sock in self.sockets:
                sock.close()
            self.sockets = []
        elif self.draining:
            self.ended = True
        self.draining = True


def main():
    logging.basicConfig(level="INFO", format="%(levelname)s %(name)s: %(message)s")
    sockets = listen("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    print("buffered when the children are forked", end="")
    code = Supervisor(
        lambda child: Toy(child, []).run(),
        lambda child: Toy(child, sockets).run(),
        OPTIONS.get("workers", 2),
        drain_timeout=OPTIONS.get("drain_timeout", 60),
        pulse=PULSE.read,
        still=OPTIONS.get("still", 60),
        worker_still=OPTIONS.get("still", 60),
        again=OPTIONS.get("again", 0),
        ready_timeout=OPTIONS.get("ready_timeout", 60),
        grace=OPTIONS.get("grace", 60),
        sockets=sockets,
        reread=CONFIG.reread,
        revert=CONFIG.revert,
        on_restart=lambda number: note("restarts", str(number)),
        on_ready=lambda: tell("supervisor", f"listening {port}"),
    ).run()
    sys.exit(code)


if __name__ == "__main__":
    main()
