"""Who decides: the owner of balances, queues, replicas and the exact cache, in this process or in one of its own."""
