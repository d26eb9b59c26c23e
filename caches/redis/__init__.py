"""Exact answers in a Redis or Valkey that several gateways share.

Here `redis` is this package only by its full name: `import redis` is the client library of that name, which the extra `redis`
installs, and which is loaded only when the store is built.
"""
