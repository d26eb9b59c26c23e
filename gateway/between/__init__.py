"""Gateways side by side before the same replicas: each tells the others what it has sent where, so that all choose as one would.

words.py   what they say: one small sealed message, bounded
heat.py    what a pool has to tell the others
peers.py   what was heard: who has how much in flight where, and for how long that is believed
desk.py    one gateway: what it has to tell, and what becomes of what it hears
share.py   the desk at work, on a channel of the shared server
figures.py  what metrics tell of it

Rules of this package
1. A gateway's own accounting decides; what others tell is advice for the choice of a replica. No slot, limit, queue, breaker or
   drain depends on it, and no request ever waits for it.
2. A message has the whole of what its sender has in flight, so any one that arrives makes up for all that were lost. What was
   placed is told once; what is lost of that, the next request with the same beginning makes good.
3. Nobody is believed for longer than a second after he was last heard.
4. Messages hold keyed digests and numbers: no prompt, no name, no address. What is too long, not sealed with the gateways' common
   secret, or not understood is counted and ignored.
"""
