"""What a request leaves in memory when it has ended: nothing that only the garbage collector would find."""

import asyncio
import gc

import pytest

PRODUCT = ("gateway", "backends", "caches", "limits", "routing")
CACHED = {"temperature": 0}
STREAMED = {"stream": True}


@pytest.mark.parametrize("fields", [{}, CACHED, STREAMED, CACHED | STREAMED], ids=["kept by none", "cached", "streamed", "both"])
async def test_requests_leave_no_cycles(start, fields):
    """A request's own objects are freed as it ends, whether it is cached, streamed, both or neither."""
    stack = await start()

    async def ask(first):
        for number in range(first, first + 5):
            assert (await stack.chat(f"hello {number}", **fields)).status_code == 200
        await stack.until(stack.idle)
        await asyncio.sleep(0)

    await ask(0)
    gc.collect()
    gc.disable()
    try:
        await ask(5)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [type(one) for one in gc.garbage if type(one).__module__.split(".")[0] in PRODUCT]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert [kind.__qualname__ for kind in left] == []
