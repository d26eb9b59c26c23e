"""How much may come in, and in which order: rate limits and the priority queue.

types.py      the values, protocols and exceptions that callers deal with
bucket.py     what one scope has spent (pure arithmetic: time is an argument)
memory.py     the limiter whose balances live in this process
estimate.py   how many tokens to set aside for a request before it ran
turns.py      whose turn it is among the tenants of one class (pure)
scheduler.py  the waiting line in front of a pool: classes, bounds, deadlines (pure)
slots.py      the line joined to the event loop: `async with scheduler.slot(ask)`
"""
