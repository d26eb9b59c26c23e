"""The process that starts a node's others, and has no other task: no event loop, no requests, nothing that could fail.

Rules of this file
1. The dispatcher is first to come and last to go: a worker starts only while a dispatcher is ready, and the dispatcher
   is told to end when no worker is left. One that dies while workers drain is replaced: they need it.
2. What dies is replaced at once; what dies again soon, after a pause that doubles. Only before the node was ever ready
   does a process end it, by the exit code 2: it says that the config, an address or a file cannot be used, and
   trying again would not help. Later there is a node to keep: such a process is tried again like any other.
3. SIGTERM and SIGINT drain, a second one ends at once; not one that comes `again` within a moment, for `timeout` and others send
   the same to the process and to its group. SIGHUP replaces the workers one by one, each only when its
   replacement is ready; before them the dispatcher, if there is another config. One that cannot start with it gets the old.
4. Every wait for a child to get ready, or to end, has an end; then comes SIGKILL. It also comes for who serves, and does
   not run any more: soon for the dispatcher, as every request waits for it. Who comes next is started when it is gone, so there
   are never two dispatchers.

What is expected of a worker: END begins its drain (it accepts on, to say so); RETIRE begins one in which it stops accepting
and serves whom it has (`Server.retire`); END amid either ends it at once; its lifeline is as a first END. The dispatcher ends on
END; when its lifeline tells that the supervisor is gone, it ends when its last worker has.
"""

from __future__ import annotations

import enum
import logging
import signal
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

from gateway.node.child import END, RETIRE, Child, Process, Run
from gateway.node.family import Family
from gateway.node.posts import Post, Reload
from gateway.node.pulse import Vigil
from gateway.node.signals import how

CANNOT_START = 2


class Reread(enum.Enum):
    """What a look at the config found, when a reload was asked for."""

    SAME = enum.auto()
    CHANGED = enum.auto()
    REFUSED = enum.auto()  # it cannot be used: nothing is reloaded


_log = logging.getLogger("tiergate.node")


class Supervisor:
    """`dispatcher` and `worker` run in forked processes and return the exit code; nothing is started before `run`.

    `sockets` are those that workers accept from: the dispatcher does not get them, and they are closed here when a drain
    begins, so that nobody waits in the backlog of a node that has gone. `on_ready` is called once, when all are ready,
    and `on_restart` with the number of whoever has died and will be started again.
    Whoever has not ended `grace` seconds after `drain_timeout`, or after a second signal, is killed; and the dispatcher when
    its number that `pulse` reads, which grows while it runs, has been the same for `still` seconds, a worker for `worker_still`.
    """

    def __init__(
        self,
        dispatcher: Run,
        worker: Run,
        workers: int,
        drain_timeout: float,
        pulse: Callable[[int], int],
        still: float = 2.5,
        worker_still: float = 30.0,
        ready_timeout: float = 30.0,
        sockets: Sequence[socket.socket] = (),
        on_ready: Callable[[], None] = lambda: None,
        on_restart: Callable[[int], None] = lambda _: None,
        reread: Callable[[], Reread] = lambda: Reread.SAME,
        prove: Callable[[], None] = lambda: None,
        revert: Callable[[], None] = lambda: None,
        grace: float = 10.0,
        again: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sockets = list(sockets)
        self._dispatcher = Post("dispatcher", 0, self._without_sockets(dispatcher), Vigil(partial(pulse, 0), still, clock))
        self._workers = [
            Post(f"worker {number}", number, worker, Vigil(partial(pulse, number), worker_still, clock))
            for number in range(1, workers + 1)
        ]
        self._posts = (self._dispatcher, *self._workers)
        self._drain_timeout = drain_timeout
        self._ready_timeout = ready_timeout
        self._grace = grace
        self._again = again
        self._on_ready = on_ready
        self._on_restart = on_restart
        self._reread = reread
        self._prove = prove
        self._revert = revert
        self._unproven = False  # no dispatcher has started with the config that there is now
        self._clock = clock
        self._family = Family(clock)
        self._reload = Reload()
        self._code = 0
        self._was_ready = False
        self._draining = False
        self._drained = 0.0  # when that began

    def run(self) -> int:
        """Until a signal has ended the node. 0, or the code of a process that cannot start."""
        with self._family:
            while not self._draining or self._family.members:
                self._fill()
                self._continue_reload()
                self._end_dispatcher()
                numbers, ready, ended = self._family.wait(self._next_due())
                for process in ready:
                    self._ready(process)
                for process, code in ended:
                    self._ended(process, code)
                for number in numbers:
                    self._signalled(number)
                self._kill_late()
                self._kill_still()
        return self._code

    # -- starting

    def _fill(self) -> None:
        """Start what is missing and due."""
        for post in self._posts:
            if post.holder is None and self._wanted(post) and self._clock() >= post.due:
                try:
                    post.holder = self._start(post)
                except OSError as error:
                    pause = post.vacate(self._clock(), 0.0, served=False)
                    _log.warning("%s cannot be started, again in %.1f s: %s", post.name, pause, error)

    def _wanted(self, post: Post) -> bool:
        if post is self._dispatcher:
            return not self._draining or bool(self._family.workers)
        return not self._draining and self._dispatcher.serving and post is not self._reload.post

    def _start(self, post: Post) -> Process:
        return self._family.start(post, self._clock() + self._ready_timeout)

    def _without_sockets(self, run: Run) -> Run:
        def dispatcher(child: Child) -> int:
            self._close_sockets()
            return run(child)

        return dispatcher

    def _close_sockets(self) -> None:
        for sock in self._sockets:
            sock.close()

    def _next_due(self) -> float:
        starts = (post.due for post in self._posts if post.holder is None and self._wanted(post))
        looks = (post.vigil.due for post in self._posts if post.serving)
        return min((*looks, *starts, *(process.deadline for process in self._family.members.values())), default=float("inf"))

    # -- what is heard

    def _ready(self, process: Process) -> None:
        _log.info("%s is ready (pid %d)", process.name, process.pid)
        if not (self._draining and process.number):
            process.deadline = float("inf")
        if process is self._dispatcher.holder and not process.retiring:
            self._unproven = False
            self._prove()
        if process is self._reload.heir:
            self._hand_over()
        if not self._was_ready and all(post.serving for post in self._posts):
            self._was_ready = True
            self._on_ready()

    def _ended(self, process: Process, code: int) -> None:
        expected = process.retiring or (self._draining and (process.number > 0 or not self._family.workers))
        level = logging.INFO if expected else logging.WARNING
        _log.log(level, "%s ended %s (pid %d)", process.name, how(code), process.pid)
        if process is self._reload.heir:
            self._give_up(f"{process.name} did not get ready")
        if self._unproven and not process.number and not process.ready and not process.retiring:
            self._go_back()
        for post in self._posts:
            if post.holder is process:
                self._vacated(post, process, code)

    def _vacated(self, post: Post, process: Process, code: int) -> None:
        now = self._clock()
        if process.retiring:  # it was told to go, so that is no death, and nobody has to wait for who comes next
            post.holder = None
            return
        pause = post.vacate(now, now - process.started, served=process.ready)
        if code == CANNOT_START and not process.ready and not self._was_ready and not self._draining:
            self._code = code
            self._drain()
            return
        if self._wanted(post):
            self._on_restart(process.number)
        if pause and self._wanted(post):
            _log.warning("%s is started again in %.1f s", post.name, pause)

    def _signalled(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            if not self._draining:
                self._drain()
            elif self._clock() - self._drained >= self._again:
                self._end_workers()
        elif number == signal.SIGHUP and self._was_ready and not self._draining:
            self._begin_reload()

    def _kill_late(self) -> None:
        now = self._clock()
        for process in self._family.members.values():
            if now >= process.deadline:
                why = "did not end" if process.ready else "did not get ready"
                _log.error("%s %s in time: it is killed (pid %d)", process.name, why, process.pid)
                process.deadline = float("inf")
                process.signal(signal.SIGKILL)

    def _kill_still(self) -> None:
        for post in self._posts:
            process = post.holder
            if process is not None and post.serving and post.vigil.look(process.pid):
                _log.error("%s stands still: it is killed (pid %d)", process.name, process.pid)
                process.signal(signal.SIGKILL)

    # -- reload

    def _begin_reload(self) -> None:
        found = self._reread()
        if found is Reread.REFUSED:
            return
        if found is Reread.CHANGED:
            self._unproven = True
            self._replace_dispatcher()
        _log.info("reloading: the workers are replaced one by one")
        self._reload.ask(self._workers)

    def _replace_dispatcher(self) -> None:
        """Workers keep what they hold, and tell the next one of it."""
        process = self._dispatcher.holder
        if process is not None and not process.retiring:
            process.retiring = True
            self._limit(process, self._grace)
            process.signal(END)

    def _go_back(self) -> None:
        """The dispatcher did not start with the new config."""
        self._unproven = False
        self._revert()
        self._give_up("the dispatcher did not start with the new config, the one of before is kept")

    def _continue_reload(self) -> None:
        """Start the next replacement, when it is time for one."""
        post = self._reload.post
        if post is not None and self._reload.heir is None and self._dispatcher.serving:
            try:
                self._reload.heir = self._start(post)
            except OSError as error:
                self._give_up(f"{post.name} cannot be started: {error}")

    def _hand_over(self) -> None:
        before = self._reload.succeed()
        if before is not None:
            before.retiring = True
            self._limit(before, self._drain_timeout + self._grace)
            before.signal(RETIRE)
        if self._reload.post is None:
            _log.info("reloaded")

    def _give_up(self, why: str) -> None:
        _log.error("the reload ends here, those that were not replaced go on: %s", why)
        heir = self._reload.heir
        if heir is not None and heir.pid in self._family.members:  # nobody's successor now
            heir.retiring = True
            self._limit(heir, self._grace)
            heir.signal(END)
        self._reload.end()

    # -- the end

    def _drain(self) -> None:
        """Those that retire drain already: for them an END would be the second one."""
        _log.info("draining: %d workers", len(self._family.workers))
        self._draining, self._drained = True, self._clock()
        self._reload.end()
        self._close_sockets()
        for process in self._family.workers:
            self._limit(process, self._drain_timeout + self._grace)
            if not process.retiring:
                process.signal(END)

    def _end_workers(self) -> None:
        _log.warning("second signal: ending at once")
        for process in self._family.workers:
            self._limit(process, self._grace)
            process.signal(END)

    def _end_dispatcher(self) -> None:
        """Once no worker is left that may need it."""
        process = self._dispatcher.holder
        if self._draining and not self._family.workers and process is not None and not process.retiring:
            process.retiring = True
            self._limit(process, self._grace)
            process.signal(END)

    def _limit(self, process: Process, seconds: float) -> None:
        process.deadline = min(process.deadline, self._clock() + seconds)
