"""Classifiers that are asked elsewhere: what they are sent, what becomes of their answers, and what happens without them."""

import asyncio
import json
import ssl
from contextlib import asynccontextmanager

import pytest
from semantic_talk import semantic

EASY, HARD = "What is the capital of France?", "Prove step by step that the square root of two is irrational."


class Classifier:
    """An HTTP server that answers every request with `answer`, after `delay` seconds. `asked`: bodies, `heads`: their heads."""

    def __init__(self):
        self.asked, self.heads, self.status, self.delay, self.answer = [], [], 200, 0.0, vllm(0.0)

    async def serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.asked.append(json.loads(await reader.readexactly(length)))
                self.heads.append(head)
                await asyncio.sleep(self.delay)
                answer = self.answer
                writer.write(b"HTTP/1.1 %d OK\r\ncontent-length: %d\r\n\r\n%b" % (self.status, len(answer), answer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def vllm(hard):
    """As vLLM's /classify tells it."""
    return json.dumps({"data": [{"index": 0, "label": "LABEL_1", "probs": [1 - hard, hard], "num_classes": 2}]}).encode()


@asynccontextmanager
async def classifier(context=None):
    """`context`: of TLS."""
    known = Classifier()
    server = await asyncio.start_server(known.serve, "127.0.0.1", 0, ssl=context)
    scheme = "https" if context else "http"
    known.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/classify"
    try:
        yield known
    finally:
        server.close()


def remote(known, **more):
    return {"routing": {"classifier": {"kind": "remote", "url": known.url, "deadline": "2s", **more}}}


async def tell(stack, content=EASY, **more):
    answer = await stack.chat(content, model="auto", **more)
    assert answer.status_code == 200
    await stack.at_rest()
    names = ("tier", "route", "score")
    return tuple(answer.headers.get(f"x-tiergate-{name}") for name in names)


async def counted(stack):
    page = (await stack.client.get("/metrics")).text
    lines = [line for line in page.splitlines() if line.startswith("tiergate_route_classified_total")]
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


async def test_a_remote_classifier_decides(start):
    """It is sent the newest ask and nothing else, with its key, and its number is the score."""
    async with classifier() as known:
        stack = await start(remote(known, api_key="sk-remote", model="judge"))
        known.answer = vllm(0.75)
        system = {"role": "system", "content": "You are a poet."}
        answer = await stack.chat(model="auto", messages=[system, {"role": "user", "content": EASY}])
        assert (answer.headers["x-tiergate-tier"], answer.headers["x-tiergate-score"]) == ("large", "0.750")
        known.answer = vllm(0.25)
        assert await tell(stack, HARD) == ("small", "score", "0.250")
        assert known.asked == [{"model": "judge", "input": EASY}, {"model": "judge", "input": HARD}]
        assert known.heads[0].startswith(b"POST /classify HTTP/1.1\r\n")
        assert b"authorization: Bearer sk-remote\r\n" in known.heads[0]
        assert await counted(stack) == {"answered": 2}


@pytest.mark.parametrize(
    ("tls", "result"),
    [
        ({"ca": "./ca.pem", "cert": "./client.pem", "server_name": "judge.test"}, "answered"),
        ({"ca": "./ca.pem", "server_name": "judge.test"}, "failed"),
        ({"ca": "./ca.pem", "cert": "./client.pem"}, "failed"),
        ({"cert": "./client.pem", "server_name": "judge.test"}, "failed"),
        ({"cert": "./client.pem", "verify": False}, "answered"),
    ],
    ids=["all that it wants", "no certificate of ours", "another name", "a CA that nobody knows", "nothing is checked"],
)
async def test_tls_to_the_classifier_is_what_the_config_says(start, tmp_path, tls, result):
    """A CA, a client certificate and a name of its own, as towards replicas; without them the rules judge."""
    ca = pytest.importorskip("trustme", reason="trustme makes the certificates of this test").CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    ca.issue_cert("gateway").private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("judge.test").configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    async with classifier(context) as known:
        known.answer = vllm(0.75)
        stack = await start(remote(known, tls=tls))
        assert (await tell(stack))[0] == ("large" if result == "answered" else "small")
        assert await counted(stack) == {result: 1}


async def test_a_follow_up_is_sent_with_what_it_follows_up(start):
    """`yes` alone says nothing; a long ask is cut to its beginning and its end."""
    async with classifier() as known:
        stack = await start(remote(known, max_chars=200))
        talk = [
            {"role": "user", "content": HARD},
            {"role": "assistant", "content": "Shall I?"},
            {"role": "user", "content": "yes"},
        ]
        await stack.chat(model="auto", messages=talk)
        await stack.chat("begin " + "x" * 10_000 + " end", model="auto")
        assert known.asked[0] == {"input": f"{HARD}\nyes"}
        sent = known.asked[1]["input"]
        assert (len(sent), sent[:6], sent[-4:]) == (200, "begin ", " end")


@pytest.mark.parametrize(
    "answer",
    [b"", b"{}", b"no", vllm(1.5), vllm(-0.1), b'{"data":[{"probs":[0,"1"]}]}', b'{"data":[{"probs":[0,true]}]}',
     b'{"data":[{"probs":[0,NaN]}]}', b'{"data":[{"probs":[0,null]}]}', b"[" * 5000, b" " * 70_000 + vllm(1.0), b"\xff\xfe"],
)  # fmt: skip
async def test_an_answer_without_a_number(start, answer):
    """Is a failure: the rules judge, and it is counted."""
    async with classifier() as known:
        stack = await start(remote(known))
        known.answer = answer
        assert (await tell(stack, HARD))[:2] == ("large", "score")
        assert await counted(stack) == {"failed": 1}


async def test_errors_open_a_breaker(start, caplog):
    """After five in a row nobody is asked for a while; the log says so, without the address, the key or the ask."""
    async with classifier() as known:
        stack = await start(remote(known, api_key="sk-remote"))
        known.status = 500
        for _ in range(8):
            assert (await tell(stack))[0] == "small"
        assert len(known.asked) == 5
        assert await counted(stack) == {"failed": 5, "breaker": 3}
        said = " ".join(record.getMessage() for record in caplog.records if record.name == "tiergate.routing")
        assert "remote classifier" in said
        assert not any(word in said for word in ("127.0.0.1", "sk-remote", "France"))


async def test_it_has_a_deadline(start):
    """One that is slower than that has not answered."""
    async with classifier() as known:
        stack = await start(remote(known, deadline="50ms"))
        known.delay = 5.0
        assert (await tell(stack, HARD))[:2] == ("large", "score")
        assert await counted(stack) == {"timeout": 1}


async def test_nobody_listens(start):
    """Nor needs one that is not there to be: with `instead: nobody` the default tier has the request."""
    async with classifier() as known:
        pass
    stack = await start(remote(known, instead="nobody"))
    assert await tell(stack) == ("large", "default", None)
    assert await counted(stack) == {"failed": 1}


@pytest.mark.parametrize("instead", ["rules", "nobody"])
@pytest.mark.parametrize(("status", "failed"), [(200, ""), (500, "failed")])
async def test_who_judged_is_told(start, instead, status, failed):
    """In the log line and by explain: the config's classifier, or who judged instead and why."""
    async with classifier() as known:
        stack = await start(remote(known, instead=instead))
        known.status = status
        await stack.chat(HARD, model="auto")
        line = await stack.line()
        by = instead if failed else "remote"
        assert (line["classifier"], line.get("classifier_failed", "")) == (by, failed)
        body = {"model": "auto", "messages": [{"role": "user", "content": HARD}]}
        told = await stack.client.post(
            "/admin/explain", json={"tenant": "acme", "body": body}, headers={"authorization": "Bearer tg-admin-key"}
        )
        assert (told.json()["route"]["classifier"], told.json()["route"]["classifier_failed"]) == (by, failed)
        await stack.chat(HARD, model="small-model")
        assert "classifier" not in (await stack.line())


async def test_who_needs_no_verdict_asks_nobody(start):
    """A model's own name, a tier that the client names, a hit: the classifier hears of none."""
    async with classifier() as known:
        stack = await start(remote(known))
        await stack.chat(EASY, model="small-model")
        await stack.chat(EASY, model="auto", headers={"x-tiergate-tier": "large"})
        assert known.asked == []
        for _ in range(2):
            answer = await stack.chat(HARD, model="auto", temperature=0)
        assert answer.headers["x-tiergate-cache"] == "exact"
        assert len(known.asked) == 1


async def test_explain_asks_it(start):
    """What would happen is told with its score."""
    async with classifier() as known:
        stack = await start(remote(known))
        known.answer = vllm(0.9)
        body = {"model": "auto", "messages": [{"role": "user", "content": EASY}]}
        told = await stack.client.post(
            "/admin/explain", json={"tenant": "acme", "body": body}, headers={"authorization": "Bearer tg-admin-key"}
        )
        assert told.status_code == 200, told.text
        assert told.json()["route"]["score"] == 0.9


async def test_a_client_that_leaves_while_it_is_asked(start):
    """Nothing is held, and no model is asked."""
    async with classifier() as known:
        stack = await start(remote(known, deadline="10s"))
        known.delay = 5.0
        request = asyncio.create_task(stack.chat(EASY, model="auto"))
        await stack.until(lambda: bool(known.asked))
        request.cancel()
        line = await stack.line()
        await stack.at_rest()
        assert (line["outcome"], line["charged_tokens"]) == ("client_gone", 0)


EXAMPLES = {
    "small": ["What is the capital of Spain?", "How do you spell necessary?", "Say hello in French."],
    "large": ["Prove that there are infinitely many primes.", "Derive the quadratic formula step by step."],
}


@pytest.mark.usefixtures("one_model")
@pytest.mark.parametrize("shared", [False, True], ids=["an embedder of its own", "the semantic cache's"])
async def test_examples_decide(start, shared):
    """An ask goes where the examples that it is like go; one that is like none is not known."""
    own = {"kind": "embedding", "examples": EXAMPLES, "deadline": "5s", "instead": "nobody"}
    stack = await start({**(semantic() if shared else {}), "routing": {"classifier": own}})
    async with asyncio.timeout(20):
        while (await tell(stack, EASY))[1] != "score":  # until the examples are embedded
            await asyncio.sleep(0.05)
    assert (await tell(stack, EASY))[:2] == ("small", "score")
    assert (await tell(stack, HARD))[:2] == ("large", "score")
    assert (await tell(stack, "zxqv blorp 77"))[1] == "default"
    assert (await tell(stack, "法国的首都是哪里？"))[1] == "default"
    told = await counted(stack)
    assert told["answered"] >= 3
    assert told["unknown"] == 2
