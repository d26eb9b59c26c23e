"""Balances in a Redis or Valkey that several gateways share.

scripts.py   what the server does in one step each
line.py      the connection: calls in order, many under way at once, a deadline for each, and whether it may be asked
call.py      one call, as bytes; an error, as words
words.py     what is sent with each script
names.py     a scope as the server knows it, and what its last answer said of it
budgets.py   what it does with budgets
spending.py  what it says of budgets, and is told
parts.py     budgets while the server is away
share.py     what a node decides alone while the server is away
held.py      what this node holds, renewed for as long as it lives
limiter.py   the limiter
place.py     where something was debited
admission.py what it hands out

Here `redis` is this package only by its full name: `import redis` is the client library of that name, which the extra `redis`
installs, and which is loaded only when the limiter is built.
"""
