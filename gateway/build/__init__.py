"""From the config to wired objects: the only place where objects of different packages meet.

Building has no side effects: no socket is opened, no task is started; `gateway.app` and `gateway.node` do that. Only the
certificates that the config names are read.

    owner      what decisions rest on
    requests   what meets requests
    whole      both in one process
    apart      the two in processes of their own
"""

from gateway.build.owner import Owner, build_owner, replica_maker
from gateway.build.whole import Parts, build

__all__ = ["Owner", "Parts", "build", "build_owner", "replica_maker"]
