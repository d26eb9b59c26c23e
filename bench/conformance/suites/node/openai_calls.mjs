// What programs do with OpenAI's SDK for Node.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { fault, KEY, log, MODEL, NARROW_KEY, run, Skip, URL } from "./record.mjs";

const sdk = new OpenAI({ baseURL: URL, apiKey: KEY, maxRetries: 0, timeout: 20_000 });
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = ["get_weather", "get_time"].map((name) => ({ type: "function", function: { name, parameters: schema } }));
const busy = { status: 429, headers: { "retry-after-ms": "1" }, body: { error: { message: "busy", code: 429 } } };

// A prompt that nobody sent before, so that no cache has its answer.
const said = (content) => [{ role: "system", content: randomUUID() }, { role: "user", content }];
const ask = (text, fields = {}, options = {}, client = sdk) =>
  client.chat.completions.create({ model: MODEL, messages: said(text), ...fields }, options);

async function all(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}
const text = (chunks) => chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");

async function refused(kind, call) {
  const error = await call().then(() => undefined, (raised) => raised);
  assert.equal(error?.constructor, kind, `${error?.constructor?.name}: ${error?.message}`);
  return error;
}

await run({
  async chat() {
    const answer = await ask("[[say: hello there]]");
    assert.equal(answer.object, "chat.completion");
    assert.equal(answer.choices[0].message.content, "hello there");
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  },
  async chat_unicode() {
    const told = 'é ü 漢字 🙂 \u2028 \\ " end';
    assert.equal((await ask(`[[say: ${told}]]`)).choices[0].message.content, told);
    assert.equal(text(await all(await ask(`[[say: ${told}]]`, { stream: true }))), told);
  },
  async several_choices() {
    const answer = await ask("x", { n: 3, temperature: 1 });
    assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1, 2]);
  },
  async logprobs() {
    const answer = await ask("[[say: a b c]]", { logprobs: true, top_logprobs: 2 });
    const found = answer.choices[0].logprobs.content;
    assert.ok(found.map((token) => token.token).join("").startsWith("a b c"));
    assert.ok(found.every((token) => token.top_logprobs.length === 2));
  },
  async stream() {
    const chunks = await all(await ask("[[say: hello there]]", { stream: true }));
    assert.equal(text(chunks), "hello there");
    assert.equal(chunks[0].choices[0].delta.role, "assistant");
    assert.equal(chunks.at(-1).choices[0].finish_reason, "stop");
    assert.ok(!chunks.some((chunk) => chunk.usage), "usage was not asked for");
  },
  async stream_usage() {
    const chunks = await all(await ask("[[say: hello]]", { stream: true, stream_options: { include_usage: true } }));
    const last = chunks.pop();
    assert.deepEqual(last.choices, []);
    assert.ok(last.usage.total_tokens > 0);
    assert.ok(chunks.every((chunk) => chunk.choices.length && !chunk.usage));
  },
  async stream_helper() {
    const stream = sdk.chat.completions.stream({ model: MODEL, messages: said("[[say: hello there]]") });
    let seen = "";
    stream.on("content", (delta) => (seen += delta));
    assert.equal(await stream.finalContent(), "hello there");
    assert.equal(seen, "hello there");
  },
  async stream_to_readable() {
    const stream = await ask("[[say: hello there]]", { stream: true });
    const lines = (await new Response(stream.toReadableStream()).text()).trim().split("\n");
    assert.equal(text(lines.map((line) => JSON.parse(line))), "hello there");
  },
  async stream_tee() {
    const [left, right] = (await ask("[[say: hello there]]", { stream: true })).tee();
    assert.deepEqual(await Promise.all([all(left).then(text), all(right).then(text)]), ["hello there", "hello there"]);
  },
  async stream_aborted() {
    const mark = randomUUID();
    await fault({ slow: 0.05 });
    const stream = await ask(`[[tokens: 400]] ${mark}`, { stream: true, max_tokens: 400 });
    let seen = 0;
    for await (const _ of stream) if (++seen === 3) break;
    for (let at = 0; at < 80; at++) {
      if ((await log()).some((entry) => entry.raw.includes(mark) && entry.aborted)) return;
      await new Promise((done) => setTimeout(done, 100));
    }
    assert.fail("the engine went on");
  },
  async stream_broken() {
    await fault({ cut_after_tokens: 3 });
    const stream = await ask("[[tokens: 30]]", { stream: true });
    await assert.rejects(all(stream));
  },
  async stream_error_event() {
    await fault({ error_in_stream: 3 });
    await assert.rejects(all(await ask("[[tokens: 30]]", { stream: true })), /Internal server error/);
  },
  async tools() {
    const asked = '[[tool: get_weather {"city": "Paris"}]] [[tool: get_time {"city": "Rome"}]]';
    const choice = (await ask(asked, { tools })).choices[0];
    assert.equal(choice.finish_reason, "tool_calls");
    assert.deepEqual(choice.message.tool_calls.map((call) => call.function.name), ["get_weather", "get_time"]);
    assert.deepEqual(JSON.parse(choice.message.tool_calls[0].function.arguments), { city: "Paris" });
  },
  async tools_named() {
    const named = { type: "function", function: { name: "get_time" } };
    const [call] = (await ask("x", { tools, tool_choice: named })).choices[0].message.tool_calls;
    assert.equal(call.function.name, "get_time");
  },
  async tools_streamed() {
    const asked = '[[tool: get_weather {"city": "Paris"}]] [[tool: get_time {"city": "Rome"}]]';
    const stream = sdk.chat.completions.stream({ model: MODEL, messages: said(asked), tools });
    const calls = (await stream.finalMessage()).tool_calls;
    assert.deepEqual(calls.map((call) => JSON.parse(call.function.arguments)), [{ city: "Paris" }, { city: "Rome" }]);
  },
  async run_tools() {
    const known = ["get_weather"].map((name) => ({
      type: "function",
      function: { name, parameters: schema, parse: JSON.parse, function: ({ city }) => `sunny in ${city}` },
    }));
    const messages = said('[[tool: get_weather {"city": "Paris"}]] [[say: sunny]]');
    const runner = sdk.chat.completions.runTools({ model: MODEL, messages, tools: known });
    assert.equal(await runner.finalContent(), "sunny");
    assert.ok(runner.messages.some((message) => message.role === "tool" && message.content === "sunny in Paris"));
  },
  async parse() {
    const form = zodResponseFormat(z.object({ name: z.string(), day: z.number(), people: z.array(z.string()) }), "event");
    const answer = await sdk.chat.completions.parse({ model: MODEL, messages: said("x"), response_format: form });
    assert.equal(typeof answer.choices[0].message.parsed.name, "string");
  },
  async completions() {
    const answer = await sdk.completions.create({ model: MODEL, prompt: ["[[say: one]]", "[[say: two]]"] });
    assert.deepEqual(answer.choices.map((choice) => choice.text), ["one", "two"]);
    const chunks = await all(await sdk.completions.create({ model: MODEL, prompt: "[[say: hello there]]", stream: true }));
    assert.equal(chunks.map((chunk) => chunk.choices[0].text).join(""), "hello there");
  },
  async embeddings() {
    const plain = await sdk.embeddings.create({ model: MODEL, input: ["a", "b"], encoding_format: "float" });
    const packed = await sdk.embeddings.create({ model: MODEL, input: ["a", "b"] });
    assert.equal(plain.data.length, 2);
    for (const [at, item] of plain.data.entries())
      for (const [place, value] of item.embedding.entries())
        assert.ok(Math.abs(value - packed.data[at].embedding[place]) < 1e-6);
  },
  async models_list() {
    assert.ok((await all(sdk.models.list())).some((model) => model.id === MODEL));
  },
  async models_retrieve() {
    assert.equal((await sdk.models.retrieve(MODEL)).id, MODEL);
  },
  async responses() {
    assert.equal((await sdk.responses.create({ model: MODEL, input: "[[say: hello]]" })).output_text, "hello");
    const events = await all(await sdk.responses.create({ model: MODEL, input: "[[say: hello]]", stream: true }));
    assert.equal(events.at(-1).type, "response.completed");
  },
  async error_400() {
    assert.match((await refused(OpenAI.BadRequestError, () => ask("x", { temperature: 7 }))).message, /temperature/);
  },
  async error_401() {
    await refused(OpenAI.AuthenticationError, () => ask("x", {}, {}, sdk.withOptions({ apiKey: "sk-wrong" })));
  },
  async error_403() {
    if (!NARROW_KEY) throw new Skip("no keys with fewer rights are set up for this target");
    const narrow = sdk.withOptions({ apiKey: NARROW_KEY });
    await refused(OpenAI.PermissionDeniedError, () => ask("x", { model: "conform-large" }, {}, narrow));
  },
  async error_404() {
    const error = await refused(OpenAI.NotFoundError, () => ask("x", { model: "no-such-model" }));
    assert.ok(error.code && error.type);
  },
  async error_422() {
    await fault({ status: 422, body: { error: { message: "cannot be processed", type: "x", param: null, code: 422 } } });
    await refused(OpenAI.UnprocessableEntityError, () => ask("x"));
  },
  async error_429() {
    await fault(busy);
    await refused(OpenAI.RateLimitError, () => ask("x"));
  },
  async error_503() {
    await fault({ status: 503, body: { error: { message: "overloaded", code: 503 } } });
    await refused(OpenAI.InternalServerError, () => ask("x"));
  },
  async error_of_a_stream() {
    await refused(OpenAI.NotFoundError, () => ask("x", { model: "no-such-model", stream: true }));
  },
  async timeout() {
    await fault({ hang_before_headers: 3 });
    await refused(OpenAI.APIConnectionTimeoutError, () => ask("x", {}, { timeout: 500 }));
  },
  async retry() {
    await fault({ ...busy, times: 1 });
    assert.equal((await ask("[[say: at last]]", {}, { maxRetries: 2 })).choices[0].message.content, "at last");
  },
  async abort_signal() {
    await fault({ hang_before_headers: 3 });
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 200);
    await refused(OpenAI.APIUserAbortError, () => ask("x", {}, { signal: controller.signal }));
  },
  async raw_response() {
    const { data, response } = await ask("[[say: hello]]").withResponse();
    assert.equal(data.choices[0].message.content, "hello");
    assert.ok(response.headers.get("content-type").startsWith("application/json"));
  },
  async request_id() {
    const { request_id } = await ask("x").withResponse();
    assert.ok(request_id);
  },
  async many_at_once() {
    const answers = await Promise.all(Array.from({ length: 32 }, (_, at) => ask(`[[say: ${at}]]`)));
    assert.deepEqual(answers.map((answer) => answer.choices[0].message.content), Array.from({ length: 32 }, (_, at) => `${at}`));
  },
});
