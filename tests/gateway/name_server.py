"""A DNS server of a few lines: answers from a dict that the test changes, by UDP."""

import asyncio

import dns.flags
import dns.message
import dns.rcode
import dns.rrset


class NameServer(asyncio.DatagramProtocol):
    """`zone[(name, type)]` is a list of record texts; `rcode` answers everything with an error; `mute` with nothing."""

    def __init__(self):
        self.zone = {}
        self.ttl = 1
        self.rcode = None
        self.mute = False
        self.raw = None
        self.asked = []

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._transport.get_extra_info('sockname')[1]}"
        return self

    async def __aexit__(self, *_):
        self._transport.close()

    def connection_made(self, transport):
        pass

    def datagram_received(self, data, peer):
        if self.mute:
            return
        if self.raw is not None:
            self._transport.sendto(data[:2] + self.raw, peer)
            return
        query = dns.message.from_wire(data)
        question = query.question[0]
        name, kind = question.name.to_text().rstrip("."), dns.rdatatype.to_text(question.rdtype)
        self.asked.append((name, kind))
        answer = dns.message.make_response(query)
        records = self.zone.get((name, kind))
        if self.rcode is not None:
            answer.set_rcode(self.rcode)
        elif records:
            answer.answer.append(dns.rrset.from_text_list(question.name, self.ttl, "IN", kind, records))
        elif not any(known == name for known, _ in self.zone):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        self._transport.sendto(answer.to_wire(), peer)
