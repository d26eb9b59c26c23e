"""A pool whose one slot is taken, so that whoever asks waits in line."""

import asyncio

from gateway_talk import ask, chat, hold, posts, queued, station

ONE_SLOT = {"models": {0: {"concurrency": {"max": 1}}}, "queue": {"max_wait": {"realtime": "20s"}}}


class Held:
    """The slot is known to be slow: a thousand tokens take it 100 seconds."""

    def __init__(self, stack):
        self.stack = stack
        self.wake = hold(stack.small)
        self.tasks = []
        station(stack).scheduler.queue.outlook.completed(1000, 100.0)

    async def add(self, content, *, greedy=False, **how):
        count, running = queued(self.stack), station(self.stack).scheduler.inflight
        body = chat(content, max_tokens=100, temperature=0 if greedy else None)
        task = asyncio.create_task(ask(self.stack, body, **how))
        self.tasks.append(task)
        if running:
            await self.stack.until(lambda: queued(self.stack) == count + 1)
        else:
            await self.stack.until(lambda: posts(self.stack.small))
        return task

    async def over(self):
        self.wake()
        return [answer.status_code for answer in await asyncio.gather(*self.tasks)]


async def held(start, changes=None, **how):
    line = Held(await start({**ONE_SLOT, **(changes or {})}, **how))
    await line.add("blocker")
    return line
