"""Gateways' desks without gateways: pools of a few replicas, indices, and a clock that moves when told."""

import random

from backends.balance import make_balance
from backends.breaker import Breaker
from backends.client import Client, Origin
from backends.pool import Pool
from backends.replica import Replica
from gateway.between.desk import Desk
from gateway.between.words import Seal
from gateway.dispatch.placing import placing_of

SEAL = Seal(b"secret")


def replica_at(name, url):
    made = Replica(name, Client(Origin.parse(url)), breaker=Breaker(random.Random(1)))
    made.up = True
    return made


class Gateway:
    """`node`: its number. `renamed`: it calls its replicas by other names."""

    def __init__(self, node, replicas=3, *, renamed=False):
        names = [f"{'x' if renamed else 'r'}{number}" for number in range(replicas)]
        made = [replica_at(name, f"http://10.0.0.{number}:8000/v1") for number, name in enumerate(names)]
        balance = make_balance("work_cost", seed=1)
        self.placing = placing_of("m", balance, None)
        self.pool = Pool("m", made, balance)
        self.node = bytes([node]) * 8
        self.desk = Desk(SEAL, self.node, [(self.pool, self.placing)])

    @property
    def replicas(self):
        return self.pool.replicas

    def load(self, number, inflight, pending):
        """As leases would."""
        self.replicas[number].inflight, self.replicas[number].pending = inflight, pending

    @property
    def others(self):
        return [(replica.others_inflight, replica.others_pending) for replica in self.replicas]
