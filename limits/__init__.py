"""How much may come in, and in which order: rate limits and the priority queue.

types.py      the values, protocols and exceptions of limits
waiting.py    those of the queue
bucket.py     what one scope has spent (pure arithmetic: time is an argument)
ledger.py     the balances of all scopes and the decisions over several at once (pure)
memory.py     the limiter whose balances live in this process
redis/        the limiter whose balances several gateways share
cells.py      small records in a buffer that outlives a killed writer
vault.py      what was spent, in such a buffer
kept.py       the ledger that writes to it and goes on from it
budget.py     what was used of a scope's day and month (pure)
journal.py    the same, in a file that outlives the gateway
keepers.py    a budget's ways into vault and journal
estimate.py   how many tokens to set aside for a request before it ran
density.py    how many bytes of a model's prompts make a token, learned from its answers
account.py    what a tenant or a class was served (pure)
entry.py      one ask that waits or runs
turns.py      the waiting requests of one tenant, and which is next (pure)
shelf.py      how much work waits at which place of such a line (pure)
line.py       the waiting entries of one class, and whose turn it is among its tenants (pure)
predict.py    how long an answer will be (pure)
drain.py      how fast a queue empties, and when those who are refused are to come back (pure)
outlook.py    how long who joins a queue would wait (pure)
scheduler.py  the waiting line in front of a pool: classes, bounds, deadlines (pure)
reserved.py   shares of a pool that tenants have for themselves, and who may use his now (pure)
provisioned.py  the waiting line where there are such shares (pure)
spare.py      slots for what nobody waits for, given back to whoever does (pure)
slots.py      the line joined to the event loop: `async with scheduler.slot(ask)`
view.py       the line as an operator looks at it
"""
