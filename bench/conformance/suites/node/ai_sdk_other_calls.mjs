// Vercel's AI SDK over the two other APIs: its provider for OpenAI speaks /v1/responses, the one for Anthropic /v1/messages.
// Each case stands once for either.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";
import { fault, KEY, MODEL, run, URL } from "./record.mjs";

const openai = createOpenAI({ baseURL: URL, apiKey: KEY });
const anthropic = createAnthropic({ baseURL: URL, authToken: KEY });
const models = { responses: (name) => openai.responses(name), messages: (name) => anthropic(name) };
const city = z.object({ city: z.string() });
const tools = {
  weather: tool({ description: "the weather", inputSchema: city, execute: async ({ city }) => `sunny in ${city}` }),
  clock: tool({ description: "the time", inputSchema: city, execute: async ({ city }) => `noon in ${city}` }),
};
const asksForBoth = '[[tool: weather {"city": "Paris"}]] [[tool: clock {"city": "Rome"}]] [[say: done]]';

// A prompt that nobody sent before, so that no cache has its answer; errors of a stream are looked for, not printed.
const asked = (model, prompt, fields = {}) =>
  ({ model, system: randomUUID(), prompt, maxRetries: 0, maxOutputTokens: 400, onError() {}, ...fields });
const generate = (...args) => generateText(asked(...args));

async function parts(result) {
  const found = [];
  for await (const part of result.fullStream) found.push(part);
  return found;
}

const cases = {
  async text(model) {
    const { text, finishReason, usage } = await generate(model, "[[say: hello there]]");
    assert.deepEqual([text, finishReason], ["hello there", "stop"]);
    assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
  },
  async image(model) {
    const content = [{ type: "text", text: "[[say: a cat]]" }, { type: "file", data: new Uint8Array(4000), mediaType: "image/png" }];
    const { text } = await generateText({ model, messages: [{ role: "user", content }], maxRetries: 0, maxOutputTokens: 400 });
    assert.equal(text, "a cat");
  },
  async stream(model) {
    const result = streamText(asked(model, "[[say: é ü 漢字 🙂 \u2028 end]]"));
    const found = await parts(result);
    assert.deepEqual(found.filter((part) => part.type === "error"), []);
    assert.equal(found.filter((part) => part.type === "text-delta").map((part) => part.text).join(""), "é ü 漢字 🙂 \u2028 end");
    assert.ok((await result.usage).outputTokens > 0);
  },
  async max_tokens(model) {
    const { finishReason, usage } = await generate(model, "[[tokens: 50]]", { maxOutputTokens: 20 });
    assert.deepEqual([finishReason, usage.outputTokens], ["length", 20]);
  },
  async tools(model) {
    const { text, steps } = await generate(model, asksForBoth, { tools, stopWhen: isStepCount(3) });
    assert.equal(text, "done");
    assert.deepEqual(steps[0].toolResults.map((result) => result.output), ["sunny in Paris", "noon in Rome"]);
  },
  async tools_streamed(model) {
    const result = streamText(asked(model, asksForBoth, { tools, stopWhen: isStepCount(3) }));
    const found = await parts(result);
    assert.deepEqual(found.filter((part) => part.type === "error"), []);
    assert.deepEqual(found.filter((part) => part.type === "tool-result").map((part) => part.output).sort(),
      ["noon in Rome", "sunny in Paris"]);
    assert.equal(await result.text, "done");
  },
  async object(model) {
    const schema = z.object({ name: z.string(), people: z.array(z.string()) });
    const { output } = await generate(model, "x", { output: Output.object({ schema }) });
    assert.deepEqual(Object.keys(output).sort(), ["name", "people"]);
  },
  async kept_answer(model) {
    const same = { system: randomUUID(), temperature: 0 };
    const { text } = await generate(model, "[[tokens: 30]]", same);
    assert.equal((await generate(model, "[[tokens: 30]]", same)).text, text);
    const found = await parts(streamText(asked(model, "[[tokens: 30]]", same)));
    assert.deepEqual(found.filter((part) => part.type === "error"), []);
    assert.equal(found.filter((part) => part.type === "text-delta").map((part) => part.text).join(""), text);
  },
  async error_status(model, unknown) {
    const error = await generate(unknown, "x").then(() => undefined, (raised) => raised);
    assert.ok(APICallError.isInstance(error), `${error}`);
    assert.deepEqual([error.statusCode, error.isRetryable], [404, false]);
  },
  async error_is_retried(model) {
    await fault({ status: 429, headers: { "retry-after-ms": "1" }, body: { error: { message: "busy", code: 429 } }, times: 1 });
    assert.equal((await generate(model, "[[say: at last]]", { maxRetries: 2 })).text, "at last");
  },
  async stream_broken(model) {
    await fault({ cut_after_tokens: 3 });
    const found = await parts(streamText(asked(model, "[[tokens: 30]]"))).catch(() => [{ type: "error" }]);
    assert.ok(found.some((part) => part.type === "error"), "a short answer instead of an error");
  },
};

await run(Object.fromEntries(Object.entries(models).flatMap(([api, named]) =>
  Object.entries(cases).map(([name, test]) => [`${api}_${name}`, () => test(named(MODEL), named("no-such-model"))]))));
