"""Who decides: the owner of balances, queues, replicas and the exact cache, in this process or in one of its own.

types      what a request asks of the owner
local      the owner in this process: the leaves themselves
link       the owner elsewhere, as a worker sees it
session    a worker, as the owner sees it
feeds      answers on their way from one worker to clients of another, as the owner sees them
outgoing   those that this worker makes for others, incoming those that others make for it
messages   what the two say to each other
channel    how it gets there
"""
