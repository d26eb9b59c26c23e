"""What stands in for a Qdrant server: the part of its REST that its own client uses for us, over its own engine.

There is no server's binary to be had where these tests run. The paths, the shapes of bodies and the errors are those of Qdrant
1.x's OpenAPI; what lies behind them (filters, order, offsets) is the engine itself.
"""

import asyncio
import json
import re
import shutil
from pathlib import Path

import qdrant_edge as edge
import uvicorn

PATH = re.compile(r"/collections/([^/]+)(/.*)?")


class StandIn:
    """`fault`: what it does wrong, an HTTP status or `garbage`, `short` (vectors), `strangers` (the filter forgotten), `forgets`
    (what was put). `key`: what it wants as an API key.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.shards = {}
        self.fault = None
        self.key = None
        self.headers = []
        self.asked = []
        self.port = 0

    async def start(self):
        config = uvicorn.Config(
            self, port=self.port, http="httptools", lifespan="off", log_level="critical", timeout_graceful_shutdown=0
        )
        self._server = uvicorn.Server(config)
        self._task = asyncio.create_task(self._server._serve())
        while not self._server.started:
            await asyncio.sleep(0.001)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        return self

    async def stop(self):
        self._server.should_exit = True
        await self._task
        for shard in self.shards.values():
            shard.close()

    def wipe(self):
        for shard in self.shards.values():
            shard.close()
        self.shards.clear()
        shutil.rmtree(self.folder)
        self.folder.mkdir()

    async def __call__(self, scope, receive, send):
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        self.asked.append((scope["method"], scope["path"]))
        refused = self.key is not None and self.headers[-1].get("api-key") != self.key
        told = {"status": {"error": "Invalid API key or JWT"}, "time": 0.0}
        status, answer = (401, told) if refused else self.answer(scope["method"], scope["path"], json.loads(body or b"{}"))
        content = b"<html>no Qdrant</html>" if self.fault == "garbage" else json.dumps(answer).encode()
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": content})

    def answer(self, method, path, body):
        if isinstance(self.fault, int):
            return self.fault, {"status": {"error": "told to fail"}, "time": 0.0}
        if path == "/":
            return 200, {"title": "qdrant - vector search engine", "version": "1.17.0"}
        found = PATH.fullmatch(path)
        name, rest = found[1], found[2] or ""
        if (method, rest) == ("GET", "/exists"):
            return done({"exists": name in self.shards})
        if (method, rest) == ("DELETE", ""):
            return done(self.drop(name))
        if (method, rest) == ("PUT", ""):
            return self.create(name, body)
        if name not in self.shards:
            return 404, {"status": {"error": f"Not found: Collection `{name}` doesn't exist!"}, "time": 0.0}
        return done(getattr(self, NAMES[method, rest])(self.shards[name], body))

    def create(self, name, body):
        if name in self.shards:
            return 409, {"status": {"error": f"Wrong input: Collection `{name}` already exists!"}, "time": 0.0}
        path = self.folder / name
        path.mkdir()
        distance = getattr(edge.Distance, body["vectors"]["distance"])
        params = edge.EdgeVectorParams(size=body["vectors"]["size"], distance=distance)
        self.shards[name] = edge.EdgeShard.create(str(path), edge.EdgeConfig(vectors=params))
        return done(True)

    def drop(self, name):
        shard = self.shards.pop(name, None)
        if shard is not None:
            shard.close()
            shutil.rmtree(self.folder / name)
        return shard is not None

    def index(self, shard, body):
        kind = {"keyword": edge.PayloadSchemaType.Keyword, "float": edge.PayloadSchemaType.Float}[body["field_schema"]["type"]]
        shard.update(edge.UpdateOperation.create_field_index(body["field_name"], kind))
        return UPDATED

    def upsert(self, shard, body):
        if self.fault == "forgets":
            return UPDATED
        made = [edge.Point(id=point["id"], vector=point["vector"], payload=point["payload"]) for point in body["points"]]
        shard.update(edge.UpdateOperation.upsert_points(made))
        return UPDATED

    def delete(self, shard, body):
        shard.update(edge.UpdateOperation.delete_points(body["points"]))
        return UPDATED

    def query(self, shard, body):
        request = edge.QueryRequest(
            limit=body["limit"],
            query=edge.Query.Nearest(body["query"]["nearest"]),
            filter=None if self.fault == "strangers" else filtered(body["filter"]),
            with_payload=body["with_payload"],
            with_vector=body["with_vector"],
        )
        return {"points": [{**self.told(point), "score": point.score, "version": 0} for point in shard.query(request)]}

    def retrieve(self, shard, body):
        found = shard.retrieve(body["ids"], with_payload=True, with_vector=body.get("with_vector") or False)
        return [self.told(record) for record in found]

    def scroll(self, shard, body):
        order = body.get("order_by")
        request = edge.ScrollRequest(
            offset=body.get("offset"),
            limit=body["limit"],
            filter=filtered(body.get("filter") or {"must": []}),
            with_payload=body["with_payload"],
            order_by=edge.OrderBy(order["key"], edge.Direction.Asc) if order else None,
        )
        found, following = shard.scroll(request)
        offset = None if following is None else str(following)
        return {"points": [self.told(record) for record in found], "next_page_offset": offset}

    def told(self, record):
        vector = record.vector[:-1] if record.vector and self.fault == "short" else record.vector
        return {"id": str(record.id), "payload": record.payload, "vector": vector}

    def info(self, shard, body):
        info = shard.info()
        return {
            "status": "green",
            "optimizer_status": "ok",
            "points_count": info.points_count,
            "indexed_vectors_count": info.indexed_vectors_count,
            "segments_count": info.segments_count,
            "payload_schema": {},
            "config": {
                "params": {"vectors": {"size": 1, "distance": "Cosine"}},
                "hnsw_config": {"m": 0, "ef_construct": 64, "full_scan_threshold": 10000},
                "optimizer_config": {
                    "deleted_threshold": 0.2,
                    "vacuum_min_vector_number": 1000,
                    "default_segment_number": 0,
                    "flush_interval_sec": 5,
                },
            },
        }


UPDATED = {"operation_id": 1, "status": "completed"}
NAMES = {
    ("GET", ""): "info",
    ("PUT", "/index"): "index",
    ("PUT", "/points"): "upsert",
    ("POST", "/points"): "retrieve",
    ("POST", "/points/query"): "query",
    ("POST", "/points/scroll"): "scroll",
    ("POST", "/points/delete"): "delete",
}


def done(result):
    return 200, {"result": result, "status": "ok", "time": 0.0}


def filtered(body):
    conditions = []
    for one in body["must"]:
        if one.get("match"):
            conditions.append(edge.FieldCondition(key=one["key"], match=edge.MatchValue(value=one["match"]["value"])))
        else:
            bounds = {how: value for how, value in one["range"].items() if value is not None}
            conditions.append(edge.FieldCondition(key=one["key"], range=edge.RangeFloat(**bounds)))
    return edge.Filter(must=conditions)
