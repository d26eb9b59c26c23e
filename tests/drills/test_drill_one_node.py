"""Whichever worker is asked, the node answers."""

import asyncio

from drill_node import ask
from gateway_talk import ADMIN_KEY, CHAT, GREEDY, KEY, OTHER_KEY, chat, posts, tenant, total

from gateway.lab.fake import Options

TENANTS = {"tenants": [tenant("acme", KEY), tenant("globex", OTHER_KEY)]}


async def post(wire, path, body=b"", *, key=ADMIN_KEY, method="POST"):
    return await ask(wire, path, body, key=key, method=method)


async def test_a_key_of_one_worker_is_a_key_of_all(node):
    """Made, rotated and revoked through one, it works or is refused at once on the other, by every way there is to it."""
    one = await node(TENANTS)
    [first], [second] = await one.dial_both()
    for here, there in ((first, second), (second, first)) * 5:
        made = (await post(here, "/admin/keys", {"tenant": "acme"})).json()
        assert (await post(there, CHAT, chat(), key=made["secret"])).status_code == 200
        assert (await post(here, CHAT, chat(), key=made["secret"])).status_code == 200
        new = (await post(there, f"/admin/keys/{made['id']}/rotate", {"overlap": 0})).json()
        codes = [
            (await post(one_of, CHAT, chat(), key=key)).status_code
            for one_of in (here, there)
            for key in (made["secret"], new["secret"])
        ]
        assert codes == [401, 200] * 2
        assert (await post(there, f"/admin/keys/{new['id']}", method="DELETE")).status_code == 200
        codes = [(await post(one_of, CHAT, chat(), key=new["secret"])).status_code for one_of in (here, there)]
        assert codes == [401, 401]


async def test_an_answer_that_one_worker_kept_is_had_and_deleted_by_all(node):
    """A hit on the other worker; after a flush, or the deletion of the entry by operator or owner, a miss on both."""
    one = await node(TENANTS)
    [first], [second] = await one.dial_both()

    async def asked(wire):
        return (await post(wire, CHAT, chat(**GREEDY), key=KEY)).headers

    def ways(entry):
        """To forget it."""
        yield "/admin/cache/flush", {"all": True}, "POST", ADMIN_KEY
        yield f"/admin/cache/{entry}", b"", "DELETE", ADMIN_KEY
        yield f"/cache/{entry}", b"", "DELETE", KEY

    for here, there in ((first, second), (second, first)):
        for way in range(3):
            assert (await asked(here))["x-tiergate-cache"] == "miss"
            found = await asked(there)
            while found["x-tiergate-cache"] != "exact":  # a worker's answers are kept a moment after they were given
                found = await asked(there)
            assert (await asked(here))["x-tiergate-cache"] == "exact"
            path, body, method, key = list(ways(found["x-tiergate-cache-id"]))[way]
            assert (await post(there, path, body, method=method, key=key)).status_code == 200
    assert (await asked(first))["x-tiergate-cache"] == "miss"


async def test_replicas_and_counts_are_of_the_node(node):
    """A replica drained through one worker gets nothing from the other; every request is counted, whoever served it."""
    one = await node(TENANTS, fakes={"s1": Options(), "s2": Options(), "l1": Options()})
    [first], [second] = await one.dial_both()
    for here, there in ((first, second), (second, first)):
        assert (await post(here, "/admin/models/small-model/replicas/s1/drain")).status_code == 200
        before = len(posts(one.fakes["s1"]))
        for number in range(10):
            assert (await post(there, CHAT, chat(f"drained {number}"), key=KEY)).headers["x-tiergate-replica"] == "s2"
        assert len(posts(one.fakes["s1"])) == before
        assert (await post(there, "/admin/models/small-model/replicas/s1/undrain")).status_code == 200
        seen = {(await post(here, CHAT, chat(f"back {number}"), key=KEY)).headers["x-tiergate-replica"] for number in range(20)}
        assert seen == {"s1", "s2"}
    await asyncio.gather(*(post(wire, CHAT, chat("one more"), key=OTHER_KEY) for wire in (first, second)))
    for wire in (first, second):
        text = (await ask(wire, "/metrics", key=None)).text
        assert 'tiergate_requests_total{model="small-model",outcome="ok",tenant="globex",tier="small"} 2.0' in text
        assert 'tiergate_requests_total{model="small-model",outcome="ok",tenant="acme",tier="small"} 60.0' in text
    assert total(await one.metrics(), "tiergate_workers") == 2
