"""config.yaml as a tree of frozen values: every key with its type, its default and what it means.

The attribute names are the keys. Durations are float seconds, sizes are int bytes, `None` (`null`) is "no limit" or
"unknown". What is invalid only together with something else is in `gateway.config.checks`.
"""
# ruff: noqa: RUF009 - key() and its siblings return dataclasses.field(), which is what belongs there

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from gateway.config import types as t
from gateway.config.fields import key, required, same_as, section
from gateway.config.kinds import Choice, Number, Text, Whole
from gateway.config.routing import Routing, Target
from gateway.config.secret import Secret, SecretUrl
from gateway.config.tls import BackendTls, ServerTls


@dataclass(frozen=True, slots=True, kw_only=True)
class Cors:
    origins: tuple[t.WebOrigin, ...] = key((), 'Sites whose pages may call and read the answers; "*" is any; none: CORS is off.')
    max_age: t.Seconds = key(600.0, "How long a browser may remember what it was allowed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    host: t.Host = key("127.0.0.1", "Address to listen on; 0.0.0.0 for all.")
    port: Annotated[int, Whole(0, 65535)] = key(8000, "Port to listen on; 0 takes any free one.")
    workers: Annotated[int, Whole(1, 256)] = key(
        1, "Processes that serve; above 1 there is a dispatcher beside them, which decides for all (docs/architecture.md)."
    )
    max_body: t.Bytes = key(16 * 2**20, "Largest request body; over it the answer is 413.")
    drain_timeout: t.Seconds = key(120.0, "After SIGTERM, how long running requests may take to finish.")
    header_timeout: t.Seconds = key(10.0, "How long a client may take to send its request head.")
    body_timeout: t.Seconds = key(60.0, "How long a client may take to send its request body.")
    keep_alive: t.Seconds = key(75.0, "How long an idle connection is kept open.")
    max_header: t.Bytes = key(64 * 2**10, "Largest request head; over it the answer is 431.")
    metrics: t.Listen = key("", 'A listener of its own for /metrics, "host:port", never TLS; empty: on the main one.')
    tls: ServerTls | None = key(None, "Serve HTTPS; null: plain HTTP.")
    trusted_proxies: tuple[t.NetworkText, ...] = key(
        (), "Whose `x-forwarded-for` is believed when the log names the client: networks or addresses."
    )
    cors: Cors = section(Cors, "Calls from web pages of other sites.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    key: t.HiddenText = key(Secret(), "Key for /admin; empty: /admin is off.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    connect: t.Seconds = key(3.0, "To open a connection to a replica.")
    first_token: t.Seconds = key(60.0, "From the request to the first byte of a stream.")
    between_tokens: t.Seconds = key(30.0, "The longest silence inside a stream.")
    total: t.Seconds = key(290.0, "The whole request, queue and retries included.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTimeouts:
    connect: t.Seconds | None = key(None, "As timeouts.connect, for this model.")
    first_token: t.Seconds | None = key(None, "As timeouts.first_token, for this model.")
    between_tokens: t.Seconds | None = key(None, "As timeouts.between_tokens, for this model.")
    total: t.Seconds | None = key(None, "As timeouts.total, for this model.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    name: t.ModelName = required("The LoRA adapter's public name.")
    served_name: t.Line = same_as("name", "What the backend calls it; default: the name.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    name: t.Name = required("Unique in its pool; shown in headers and metrics.")
    url: t.HttpUrl = required("Base URL of the engine's API, usually ending in /v1.")
    api_key: t.HiddenText = key(Secret(), "The engine's --api-key, if it has one.")
    tls: BackendTls | None = key(None, "TLS to this replica; null: as the model's.")
    events: t.ZmqUrl | None = key(None, "Where its engine publishes KV cache events, for `balance.precise`.")
    replay: t.ZmqUrl | None = key(None, "Where its engine replays events that were missed; null: nowhere.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discover:
    kind: Annotated[str, Choice("kind of discovery", ("dns", "srv", "file"))] = required(
        "dns: the A and AAAA records of a name; srv: its SRV records; file: a list that is watched."
    )
    name: t.Host | None = key(None, "dns and srv: the name to look up.")
    port: t.Port | None = key(None, "dns: the port of every replica.")
    scheme: Annotated[str, Choice("scheme", ("http", "https"))] | None = key(None, "dns and srv: of every replica; null: http.")
    path: t.Line | None = key(None, "dns and srv: the URL's path, null: /v1. file: the YAML file.")
    every: t.Seconds | None = key(None, "Between two looks; null: 10s, for a file 1s.")
    servers: tuple[t.Listen, ...] = key((), 'dns and srv: DNS servers to ask, "address:port"; empty: the system\'s.')
    api_key: t.HiddenText = key(Secret(), "The engines' --api-key, where the file names none.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteLLM:
    model: Annotated[str, Text(shortest=1, longest=200)] = required("The provider's model as litellm calls it: `provider/model`.")
    api_key: t.HiddenText = key(Secret(), "The provider's key; empty: litellm takes it from the provider's usual variable.")
    api_base: t.HttpUrl | None = key(None, "Base URL of the provider's API; null: the usual one.")
    drop_params: bool = key(True, "Leave out fields that the provider does not know; else they are a 400.")
    params: Mapping[t.Name, t.HiddenText] = section(
        dict, "Further arguments of litellm, such as `api_version` or `aws_region_name`; never shown."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Precise:
    timeout: t.Seconds = key(0.02, "For the token ids of one prompt; over it the request is placed by what was sent where.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    kind: t.BalanceKind = key("work_cost", "How a replica is chosen (docs/placing.md).")
    cache_tokens: t.Count | None = key(
        None, "Tokens that a replica's prefix cache holds, where its metrics do not tell; null: 524,288."
    )
    precise: Precise | None = key(
        None, "Go by what engines say they have cached, `{}` is enough; null: by what was sent where (docs/placing.md)."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    kind: Annotated[str, Choice("concurrency kind", ("fixed", "adaptive"))] = key(
        "fixed", "fixed: `max` slots; adaptive: as many as each replica turns out to serve well (docs/scheduling.md)."
    )
    max: Annotated[int, Whole(1, 100_000)] = key(256, "Requests at once on each replica, at most; the others queue.")
    min: Annotated[int, Whole(1, 100_000)] = key(4, "kind adaptive: requests at once on each replica, at least.")
    tokens: t.Count | None = key(
        None, "Tokens at once on each replica, prompts and predicted answers; null: kind adaptive finds out, else no bound."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmPrompt:
    system: Annotated[str, Text(longest=200_000)] = key("", "A system prompt, as clients send it.")
    file: t.File | None = key(None, "A text file with it instead, of 256 KiB at most; read when the gateway starts.")
    tools: t.File | None = key(None, "A JSON file with the list of `tools` that clients send with it.")
    adapter: t.ModelName | None = key(None, "The adapter of this model that it is for; null: the model itself.")
    tenants: tuple[t.Name, ...] = key((), "Whose it is, where `cache.prefix.isolate` is `tenant`; else of no meaning.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    prompts: tuple[WarmPrompt, ...] = key((), "System prompts that a replica reads before it serves, in this order.")
    learn: Annotated[int, Whole(0, 64)] = key(
        0, "Also so many of the beginnings that requests share most; they are kept in memory. 0: none."
    )
    max_tokens: t.Count = key(50_000, "Prompt tokens that a replica may compute for that.")
    timeout: t.Seconds = key(30.0, "How long it may be kept out for that.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    name: t.ModelName = required("The model's public name.")
    tier: t.Name = key("default", "The tier that it serves.")
    kind: Annotated[str, Choice("model kind", ("openai", "litellm"))] = key(
        "openai", "`openai`: replicas that speak OpenAI's API, such as vLLM; `litellm`: a provider outside the fleet."
    )
    served_name: t.Line = same_as("name", "What the backend calls it; default: the name.")
    context: t.Count | None = key(None, "Context length in tokens; null: unknown.")
    capabilities: tuple[t.Capability, ...] | None = key(
        None, "What the model can do; steers `auto` only; null: unknown, not lacking."
    )
    endpoints: tuple[t.Endpoint, ...] = key(("chat", "completions"), "The endpoints that its backends serve.")
    version: Annotated[str, Text(longest=200)] = key("", "Part of every cache key: change it when the weights change.")
    adapters: tuple[Adapter, ...] = key((), "LoRA adapters of this pool, callable as models.")
    fallback: tuple[t.ModelName, ...] = key((), "Models that take over when this one fails, in order.")
    replicas: tuple[Replica, ...] = key((), "The engines that serve this model; needed for kind openai without `discover`.")
    discover: tuple[Discover, ...] = key((), "Where further engines are found while the gateway runs.")
    tls: BackendTls | None = key(None, "TLS to the replicas with https URLs; null: the system's CAs.")
    litellm: LiteLLM | None = key(None, "kind litellm: the provider that serves this model, instead of replicas.")
    balance: Balance = section(Balance, "How a replica is chosen.")
    warm: Warm = section(Warm, "What a replica reads ahead after it was started, woke up or lost its cache (docs/placing.md).")
    concurrency: Concurrency = section(Concurrency, "Slots per replica.")
    scheduling_policy: Annotated[str, Choice("scheduling policy", ("fcfs", "priority"))] = key(
        "fcfs", "What the engines run with; `priority` makes the gateway send one."
    )
    default_max_tokens: t.Count = key(1024, "Output tokens reserved for a request that sets no limit of its own.")
    timeouts: ModelTimeouts = section(ModelTimeouts, "Deadlines for this model; what is left out is as in `timeouts`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactCache:
    enabled: bool = key(True, "Answer identical requests from memory.")
    store: Annotated[str, Choice("cache store", ("memory", "redis", "two_level"))] = key(
        "memory", "Where answers are kept; `two_level`: in Redis, with memory in front."
    )
    ttl: t.Seconds = key(3600.0, "How long an answer is kept.")
    max_bytes: t.Bytes = key(256 * 2**20, "Memory for answers; the least recently used go first.")
    max_entry: t.Bytes = key(2**20, "Largest answer that is kept.")
    keep: t.Keep = key("deterministic", "Which answers: of requests with temperature 0 or a seed, all, or none.")
    stale: t.Seconds | None = key(None, "For how long after `ttl` an answer is served once more while it is renewed; null: not.")
    pace: Annotated[float, Number(1.0, 100_000.0)] | None = key(
        None, "Tokens a second at which kept answers are streamed, for ten seconds at most; null: at once."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Qdrant:
    path: t.File = key(Path("data/qdrant"), "Directory of the embedded store; with `url`, of flushes that wait for that server.")
    url: t.HttpUrl | None = key(None, "A Qdrant server or cluster instead.")
    api_key: t.HiddenText = key(Secret(), "Sent to that server.")
    timeout: t.Seconds = key(0.05, "For one search; over it the request goes on as a miss.")
    on_disk: bool = key(False, "Keep vectors on disk rather than in memory.")
    quantization: Annotated[str, Choice("quantization", ("none", "scalar", "binary"))] = key(
        "none", "Of the vectors in the index; matches are rescored with the whole ones."
    )
    shards: t.Count = key(1, "Shards of the collection, where a cluster makes it.")
    replicas: t.Count = key(1, "Copies of each shard, where a cluster makes it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedder:
    kind: Annotated[str, Choice("embedder kind", ("minilm", "onnx", "sentence_transformers", "pool"))] = key(
        "minilm",
        "`minilm` comes along; `onnx`: a folder; `sentence_transformers`: a name or folder; `pool`: a model of this config.",
    )
    model: t.Line = key("", "Which one: a folder, a name, or for `pool` a model that serves embeddings.")
    dimension: t.Count = key(384, "kind sentence_transformers and pool: numbers in a vector.")
    max_tokens: t.Count = key(512, "kind sentence_transformers and pool: the longest text that the model reads whole.")
    prefix: Annotated[str, Text(longest=200)] = key(
        "", "kind sentence_transformers and pool: what the model wants before a text."
    )
    scripts: tuple[Annotated[str, Text(shortest=1, longest=32)], ...] = key(
        ("all",), "kind sentence_transformers and pool: the scripts that the model reads, such as latin or han."
    )
    deadline: t.Seconds = key(0.05, "For one vector; over it the request goes on as a miss.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    share: t.Share = key(0.02, "Of the served answers, how many are also asked of the model, to see whether they were right.")
    per_minute: Annotated[int, Whole(0, 100_000)] = key(10, "Such questions at most.")
    judge: t.ModelName | None = key(None, "A model that compares two answers where nothing cheaper can tell; null: none.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    kind: Annotated[str, Choice("verifier kind", ("pool", "onnx"))] = key(
        "pool", "Who says whether one answer would serve both questions: `pool`: a model of this config; `onnx`: a cross-encoder."
    )
    model: t.ModelName | None = key(None, "kind pool: the model that is asked.")
    path: t.File | None = key(None, "kind onnx: the folder with its model.onnx, tokenizer.json and verifier.json.")
    threshold: t.Share | None = key(None, "kind onnx: how sure it must be; null: what its verifier.json says.")
    ask: Annotated[str, Choice("verified", ("grey", "all"))] = key(
        "grey", "Which matches it is asked about: those that are near but not served, or all."
    )
    deadline: t.Seconds | None = key(
        None, "For its answer; over it the request goes on as a miss. null: 300ms, and 50ms for kind onnx."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticCache:
    enabled: bool = key(False, "Answer questions that mean the same from memory; a plan or a tenant may say otherwise.")
    qdrant: Qdrant = section(Qdrant, "Where vectors are kept.")
    embedder: Embedder = section(Embedder, "What turns a question into a vector.")
    preset: t.Preset = key("strict", "How sure a match must be.")
    cut: Annotated[float, Number(0.01, 1.0)] | None = key(
        None,
        "Least score that is served, for this embedder, from `tiergate cache eval --calibrate`; null: the preset's.",
    )
    max_error: t.Share | None = key(
        None, "Share of served answers that may be wrong, once enough were verified; null: the preset's."
    )
    ttl: t.Seconds = key(86400.0, "How long an answer is kept.")
    max_entries: t.Count = key(100_000, "Answers that are kept; the oldest go first.")
    max_entry: t.Bytes = key(2**18, "Largest answer that is kept.")
    max_temperature: Annotated[float, Number(0.0, 2.0)] = key(1.0, "Hotter requests have no part in it.")
    multi_turn: bool = key(False, "Also conversations, where all that was said before is equal.")
    personal: Annotated[str, Choice("personal", ("serve", "skip"))] = key(
        "serve", "Questions with personal markers, such as an e-mail address or 'my'."
    )
    askers: t.Count = key(3, "Tenants that must have asked a question before those who share a scope are served its answer.")
    shadow: Shadow = section(Shadow, "How served answers are verified.")
    verifier: Verifier | None = key(None, "What is asked about matches that are not sure; null: nobody.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixCache:
    isolate: Annotated[str, Choice("isolation", ("none", "tenant"))] = key(
        "none", "`tenant` sends a cache_salt, so that tenants share no prefix blocks of the engines."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    exact: ExactCache = section(ExactCache, "Identical requests.")
    semantic: SemanticCache = section(SemanticCache, "Requests that mean the same.")
    prefix: PrefixCache = section(PrefixCache, "The engines' own prefix cache.")
    secret: t.HiddenText = key(Secret(), "Secret of cache keys and salts; empty: a random one for each start.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    path: t.File = key(Path("data/budgets"), "store memory: directory of what was used of budgets; made when there is one.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    requests: bool = key(True, "Whether an answer that is kept, or shared with an identical request, costs a request.")
    tokens: bool = key(False, "Whether it costs the tokens that it took to make.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    hits: Hits = section(Hits, "What an answer costs that no model made for the request that gets it.")
    store: Annotated[str, Choice("limits store", ("memory", "redis"))] = key(
        "memory", "Where balances are kept; `redis`: on the server of `redis.url`, for all gateways that name it."
    )
    timeout: t.Seconds = key(0.05, "For one decision of that server; over it the gateway decides without.")
    on_outage: Annotated[str, Choice("way to decide", ("local", "open", "closed"))] = key(
        "local",
        "While that server is away: `local`: by the limits divided by the number of gateways; `open`: all pass; `closed`: none.",
    )
    instances: Annotated[int, Whole(1, 1000)] = key(
        1, "Gateways that share that server, at least: what `local` divides by where fewer were counted."
    )
    budgets: Budgets = section(Budgets, "What was used of budgets.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Redis:
    url: t.RedisAddress = key(SecretUrl("redis://127.0.0.1:6379/0"), "Of a Redis or Valkey; only what is told to use it asks it.")
    timeout: t.Seconds = key(0.05, "For one call; over it a cache goes on as if it kept nothing.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxWait:
    realtime: t.Seconds = key(30.0, "Longest wait of class realtime.")
    standard: t.Seconds = key(60.0, "Longest wait of class standard.")
    batch: t.Seconds = key(240.0, "Longest wait of class batch.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    realtime: t.Weight = key(16, "Share of class realtime.")
    standard: t.Weight = key(4, "Share of class standard.")
    batch: t.Weight = key(1, "Share of class batch.")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOrder:
    classes: Annotated[str, Choice("order of the classes", ("shares", "strict"))] = key(
        "shares", "`shares`: by `queue.weights`; `strict`: the most urgent class first, with promotion by age."
    )
    promote_after: t.Seconds = key(30.0, "`strict`: the oldest of a class counts as one class more urgent for each time so long.")
    per_token: t.Seconds | None = key(
        0.03, "How much each predicted output token puts a request back in its tenant's line; null: first come, first served."
    )
    cap: t.Count = key(512, "Predicted output tokens beyond which a request is put back no further.")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePreempt:
    kind: Annotated[str, Choice("way to preempt", ("never", "requeue", "refuse"))] = key(
        "never", "For a waiting realtime request a batch request that has sent nothing waits again, or is refused (503)."
    )
    within: t.Seconds = key(5.0, "Only requests that have run no longer: what was done for them is thrown away.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    max_requests: t.Count = key(
        1024, "Waiting requests of a model; over it 503 `queue_full`, 429 `queue_share_full` who has over half."
    )
    max_bytes: t.Bytes = key(256 * 2**20, "Bodies of waiting requests of a model.")
    max_tokens: t.Count = key(8_000_000, "Tokens of waiting requests of a model.")
    max_wait: MaxWait = section(MaxWait, "How long a request may wait for a slot.")
    weights: Weights = section(Weights, "How tokens of service are shared among the classes while all of them wait.")
    order: QueueOrder = section(QueueOrder, "Who is next; docs/scheduling.md.")
    preempt: QueuePreempt = section(QueuePreempt, "Whether batch work that runs gives way; docs/scheduling.md.")
    refuse_early: bool = key(True, "Refuse at once what would wait longer than it may, by how fast the queue is served.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits:
    rpm: t.Limit = key(None, "Requests a minute; null: no limit.")
    tpm: t.Limit = key(None, "Tokens a minute, prompt and output; null: no limit.")
    burst: t.Burst = key(60.0, "How much of `rpm` and `tpm` may be spent at once: so many seconds of them, 1s to 1h.")
    max_parallel: t.Limit = key(None, "Requests at once; null: no limit.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    day: t.Allowance = key(None, "Tokens of a calendar day in UTC, prompt and output; null: no budget.")
    month: t.Allowance = key(None, "Tokens of a calendar month in UTC; null: no budget.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCache:
    keep: t.Keep | None = key(None, "Which answers are kept; null: as `cache.exact.keep`.")
    ttl: t.Seconds | None = key(None, "How long answers are kept, by either cache at most; null: as the caches have it.")
    semantic: bool | None = key(None, "Answer questions that mean the same; null: as `cache.semantic.enabled`.")
    scope: t.Name | None = key(None, "Tenants that name the same scope share their answers; null: none of the others'.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    slots: t.Count | None = key(None, "Slots that are the tenant's whenever it wants them; null: as many as its tokens need.")
    tpm: t.Limit = key(None, "Tokens a minute that are served before all others', prompt and output; null: not counted.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    rpm: t.Limit = key(None, "Requests a minute for each tenant of the plan; null: no limit.")
    tpm: t.Limit = key(None, "Tokens a minute for each tenant of the plan, prompt and output; null: no limit.")
    burst: t.Burst = key(60.0, "How much of `rpm` and `tpm` may be spent at once: so many seconds of them, 1s to 1h.")
    max_parallel: t.Limit = key(None, "Requests at once for each tenant of the plan; null: no limit.")
    budget: Budget = section(Budget, "What each tenant of the plan may use in a day and a month.")
    priority: t.PriorityName = key("standard", "Class in the queue.")
    weight: t.Weight = key(1, "Share among the tenants of a class.")
    models: Mapping[t.ModelName, ModelLimits] = section(dict, "Further limits for single models.")
    reserved: Mapping[t.ModelName, Reserved] = section(dict, "Each of its tenants' own share of a model; docs/tenants.md.")
    cache: OwnCache = section(OwnCache, "What the caches may do for its tenants.")
    target: Target | None = key(None, "Each of its tenants' own target under `auto` and other routes; null: the route's.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantKey:
    id: t.Name = required("Unique in its tenant; shown in logs instead of the key.")
    sha256: t.KeyDigest = required("Hex SHA-256 of the whole key.")
    prefix: Annotated[str, Text(longest=16)] = key("", "First characters of the key, to recognise it by.")
    rpm: t.Limit = key(None, "Requests a minute with this key; null: no limit.")
    tpm: t.Limit = key(None, "Tokens a minute with this key; null: no limit.")
    burst: t.Burst = key(60.0, "How much of `rpm` and `tpm` may be spent at once: so many seconds of them, 1s to 1h.")
    max_parallel: t.Limit = key(None, "Requests at once with this key; null: no limit.")
    expires: t.Moment = key(None, "Last day, or the moment from which the key is refused; null: never.")
    models: tuple[t.ModelPattern, ...] | None = key(None, "Models that this key may call; null: all that the tenant may.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    name: t.Name = required("The tenant's name.")
    plan: t.Name | None = key(None, "The tenant's plan; null: none, so no limits of a plan.")
    rpm: t.Limit = key(None, "Requests a minute of all its keys, beside the plan's; null: no limit.")
    tpm: t.Limit = key(None, "Tokens a minute of all its keys, beside the plan's; null: no limit.")
    burst: t.Burst = key(60.0, "How much of `rpm` and `tpm` may be spent at once: so many seconds of them, 1s to 1h.")
    max_parallel: t.Limit = key(None, "Requests at once of all its keys, beside the plan's; null: no limit.")
    budget: Budget = section(Budget, "What all its keys may use in a day and a month, beside the plan's.")
    models: tuple[t.ModelPattern, ...] = key(("*",), "Models that it may call: names or patterns.")
    priority: t.PriorityName | None = key(None, "Class in the queue; null: the plan's.")
    weight: t.Weight | None = key(None, "Share among the tenants of its class; null: the plan's.")
    reserved: Mapping[t.ModelName, Reserved] = section(dict, "Its own share of a model, instead of what the plan says of that.")
    cache: OwnCache = section(OwnCache, "What the caches may do for it; what is left out is as in its plan.")
    target: Target | None = key(None, "Its own target under `auto` and other routes; null: its plan's.")
    keys: tuple[TenantKey, ...] = key((), "Keys that are part of the config; others are made by `tiergate keys create`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    store: Annotated[str, Choice("keys store", ("file",))] = key("file", "Where made keys are kept.")
    path: t.File = key(Path("data/keys.json"), "The file of made keys.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    interval: t.Seconds = key(2.0, "Between two checks of a replica.")
    timeout: t.Seconds = key(2.0, "For one check.")
    fall: t.Tries = key(3, "Bad checks in a row that take a replica down.")
    rise: t.Tries = key(1, "Good checks in a row that bring it up.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    enabled: bool = key(True, "Send one small request to a replica that joins, before it serves.")
    timeout: t.Seconds = key(30.0, "How long it may take.")
    attempts: t.Tries = key(5, "After so many failures the replica serves all the same.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    drain_timeout: t.Seconds = key(300.0, "How long a replica that leaves stays listed for the requests that run on it.")
    slow_start: t.Seconds | None = key(30.0, "Over how long the share of a replica that joins grows to all; null: at once.")
    warm_up: WarmUp = section(WarmUp, "The first request to a replica that joins.")
    share: Annotated[str, Choice("share", ("none", "redis"))] = key(
        "none",
        "`redis`: gateways tell each other, through `redis.url`, what they sent where, and choose as one (docs/placing.md).",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    failures: t.Tries = key(5, "Failed requests in a row that take a replica out; half of 20 or more in ten seconds do, too.")
    open: t.Seconds = key(5.0, "For how long, the first time; doubles each time.")
    max_open: t.Seconds = key(60.0, "For how long at most.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observability:
    log: Annotated[str, Choice("log", ("json", "off"))] = key("json", "One line of JSON for each request, or none.")
    level: Annotated[str, Choice("level", ("debug", "info", "warning", "error"))] = key(
        "info", "Least level of the other log lines."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    server: Server = section(Server, "The HTTP server.")
    admin: Admin = section(Admin, "The admin API.")
    timeouts: Timeouts = section(Timeouts, "Deadlines towards the engines; unstreamed requests have connect and total only.")
    models: tuple[Model, ...] = required("Pools of replicas, each behind one model name.")
    routing: Routing = section(Routing, "How a model name becomes a model.")
    cache: Cache = section(Cache, "Caches.")
    limits: Limits = section(Limits, "Rate limits.")
    redis: Redis = section(Redis, "The Redis that the stores of several gateways share.")
    queue: Queue = section(Queue, "The queue in front of each model.")
    plans: Mapping[t.Name, Plan] = section(dict, "Named sets of limits.")
    tenants: tuple[Tenant, ...] = key((), "Who may call; no tenant, no access.")
    keys: Keys = section(Keys, "API keys made by the CLI.")
    health: Health = section(Health, "Active health checks.")
    fleet: Fleet = section(Fleet, "Replicas that join and leave while the gateway runs; other gateways before them.")
    breaker: Breaker = section(Breaker, "Passive health: a breaker for each replica.")
    observability: Observability = section(Observability, "Logs.")

    def timeouts_of(self, model: Model) -> Timeouts:
        """The deadlines that hold for `model`: its own where it has them."""
        own = {one.name: getattr(model.timeouts, one.name) for one in fields(ModelTimeouts)}
        return replace(self.timeouts, **{name: value for name, value in own.items() if value is not None})

    def cache_of(self, tenant: Tenant) -> OwnCache:
        """What a tenant says of the caches, then its plan."""
        mine, plans = tenant.cache, self.plans.get(tenant.plan or "", Plan()).cache
        found = {one.name: getattr(mine, one.name) for one in fields(OwnCache)}
        return replace(plans, **{name: value for name, value in found.items() if value is not None})

    def semantic_of(self, tenant: Tenant) -> bool:
        """Whether its questions are answered by their meaning."""
        own = self.cache_of(tenant).semantic
        return self.cache.semantic.enabled if own is None else own

    @property
    def any_budget(self) -> bool:
        budgets = [plan.budget for plan in self.plans.values()] + [tenant.budget for tenant in self.tenants]
        return any(budget != Budget() for budget in budgets)

    @property
    def any_semantic(self) -> bool:
        return any(self.semantic_of(tenant) for tenant in self.tenants)

    @property
    def secret_lasts(self) -> bool:
        """Whether cache keys are made with the same secret at every start: the config's, or one beside an embedded store."""
        return bool(self.cache.secret) or (self.any_semantic and self.cache.semantic.qdrant.url is None)


_USUAL_TIERS = ("small", "medium", "large")


def complete(config: Config, directory: Path) -> Config:
    """Fills in what depends on other keys, or on where the file is: tier order, default tier, relative paths."""
    found = dict.fromkeys(model.tier for model in config.models if model.tier)
    usual = [tier for tier in _USUAL_TIERS if tier in found]
    tiers = config.routing.tiers or (*usual, *(tier for tier in found if tier not in usual))
    classifier = config.routing.classifier
    if classifier.default_tier is None and tiers:
        classifier = replace(classifier, default_tier=tiers[-1])
    policy = None if classifier.policy is None else directory / classifier.policy
    classifier = replace(classifier, policy=policy, tls=_located(classifier.tls, directory))
    learning = replace(config.routing.learning, path=directory / config.routing.learning.path)
    semantic = config.cache.semantic
    qdrant = replace(semantic.qdrant, path=directory / semantic.qdrant.path)
    embedder = semantic.embedder
    if embedder.kind == "onnx" and embedder.model:
        embedder = replace(embedder, model=str(directory / embedder.model))
    verifier = semantic.verifier
    if verifier is not None and verifier.path is not None:
        verifier = replace(verifier, path=directory / verifier.path)
    return replace(
        config,
        server=replace(config.server, tls=_located(config.server.tls, directory)),
        models=tuple(_model_located(model, directory) for model in config.models),
        limits=replace(config.limits, budgets=Budgets(path=directory / config.limits.budgets.path)),
        routing=replace(config.routing, tiers=tiers, classifier=classifier, learning=learning),
        cache=replace(config.cache, semantic=replace(semantic, qdrant=qdrant, embedder=embedder, verifier=verifier)),
        keys=replace(config.keys, path=directory / config.keys.path),
    )


def _model_located(model: Model, directory: Path) -> Model:
    return replace(
        model,
        tls=_located(model.tls, directory),
        warm=replace(model.warm, prompts=tuple(_prompt_located(prompt, directory) for prompt in model.warm.prompts)),
        replicas=tuple(replace(replica, tls=_located(replica.tls, directory)) for replica in model.replicas),
        discover=tuple(
            replace(one, path=str(directory / one.path)) if one.kind == "file" and one.path else one for one in model.discover
        ),
    )


def _prompt_located(prompt: WarmPrompt, directory: Path) -> WarmPrompt:
    return replace(
        prompt,
        file=None if prompt.file is None else directory / prompt.file,
        tools=None if prompt.tools is None else directory / prompt.tools,
    )


_Tls = TypeVar("_Tls", ServerTls, BackendTls)


def _located(tls: _Tls | None, directory: Path) -> _Tls | None:
    """With every file's path made absolute."""
    if tls is None:
        return None
    paths: dict[str, Any] = {
        one.name: directory / value for one in fields(tls) if isinstance(value := getattr(tls, one.name), Path)
    }
    return replace(tls, **paths)
