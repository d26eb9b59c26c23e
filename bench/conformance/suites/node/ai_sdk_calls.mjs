// Vercel's AI SDK with its provider for servers like OpenAI's: its schemas check every answer and every chunk.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, embedMany, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { fault, KEY, log, MODEL, run, URL } from "./record.mjs";

const provider = createOpenAICompatible({
  name: "target", baseURL: URL, apiKey: KEY, includeUsage: true, supportsStructuredOutputs: true,
});
const model = provider.chatModel(MODEL);
const city = z.object({ city: z.string() });
const tools = {
  weather: tool({ description: "the weather", inputSchema: city, execute: async ({ city }) => `sunny in ${city}` }),
  clock: tool({ description: "the time", inputSchema: city, execute: async ({ city }) => `noon in ${city}` }),
};
const asksForBoth = '[[tool: weather {"city": "Paris"}]] [[tool: clock {"city": "Rome"}]] [[say: done]]';

// A prompt that nobody sent before, so that no cache has its answer; errors of a stream are looked for, not printed.
const asked = (prompt, fields = {}) => ({ model, system: randomUUID(), prompt, maxRetries: 0, onError() {}, ...fields });
const generate = (prompt, fields) => generateText(asked(prompt, fields));

async function parts(result) {
  const found = [];
  for await (const part of result.fullStream) found.push(part);
  return found;
}

await run({
  async text() {
    const { text, finishReason, usage } = await generate("[[say: hello there]]");
    assert.deepEqual([text, finishReason], ["hello there", "stop"]);
    assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
  },
  async conversation() {
    const messages = [
      { role: "user", content: "one" },
      { role: "assistant", content: "two" },
      { role: "user", content: [{ type: "text", text: "[[say: three]]" }] },
    ];
    const { text } = await generateText({ model, messages, maxRetries: 0 });
    assert.equal(text, "three");
  },
  async image() {
    const image = new Uint8Array(4000);
    const content = [{ type: "text", text: "[[say: a cat]]" }, { type: "image", image, mediaType: "image/png" }];
    const { text } = await generateText({ model, messages: [{ role: "user", content }], maxRetries: 0 });
    assert.equal(text, "a cat");
  },
  async stream() {
    const result = streamText(asked("[[say: hello there]]"));
    const pieces = [];
    for await (const piece of result.textStream) pieces.push(piece);
    assert.equal(pieces.join(""), "hello there");
    assert.ok(pieces.length > 1);
    assert.equal(await result.finishReason, "stop");
    assert.ok((await result.usage).outputTokens > 0);
  },
  async stream_has_no_bad_chunks() {
    const found = await parts(streamText(asked("[[say: é ü 漢字 🙂 \u2028 end]]")));
    assert.deepEqual(found.filter((part) => part.type === "error"), []);
    assert.equal(found.filter((part) => part.type === "text-delta").map((part) => part.text).join(""), "é ü 漢字 🙂 \u2028 end");
  },
  async max_tokens() {
    const { finishReason, usage } = await generate("[[tokens: 50]]", { maxOutputTokens: 5 });
    assert.deepEqual([finishReason, usage.outputTokens], ["length", 5]);
  },
  async reasoning() {
    const { reasoningText, text } = await generate("[[reason: let me see]] [[say: yes]]");
    assert.deepEqual([reasoningText, text], ["let me see", "yes"]);
  },
  async reasoning_streamed() {
    const found = await parts(streamText(asked("[[reason: let me see]] [[say: yes]]")));
    assert.equal(found.filter((part) => part.type === "reasoning-delta").map((part) => part.text).join(""), "let me see");
  },
  async tools() {
    const { text, steps } = await generate(asksForBoth, { tools, stopWhen: stepCountIs(3) });
    assert.equal(text, "done");
    assert.deepEqual(steps[0].toolResults.map((result) => result.output), ["sunny in Paris", "noon in Rome"]);
  },
  async tools_streamed() {
    const result = streamText(asked(asksForBoth, { tools, stopWhen: stepCountIs(3) }));
    const found = await parts(result);
    assert.deepEqual(found.filter((part) => part.type === "error"), []);
    assert.deepEqual(found.filter((part) => part.type === "tool-result").map((part) => part.output).sort(),
      ["noon in Rome", "sunny in Paris"]);
    assert.equal(await result.text, "done");
  },
  async tool_required() {
    const { toolCalls } = await generate("x", { tools, toolChoice: { type: "tool", toolName: "clock" } });
    assert.deepEqual(toolCalls.map((call) => call.toolName), ["clock"]);
  },
  async object() {
    const schema = z.object({ name: z.string(), day: z.number().int(), people: z.array(z.string()) });
    const { output } = await generate("x", { output: Output.object({ schema }) });
    assert.deepEqual(Object.keys(output).sort(), ["day", "name", "people"]);
  },
  async object_streamed() {
    const schema = z.object({ name: z.string(), people: z.array(z.string()) });
    const result = streamText(asked("x", { output: Output.object({ schema }) }));
    for await (const _ of result.partialOutputStream);
    assert.equal(typeof (await result.output).name, "string");
  },
  async completion() {
    const { text } = await generateText({ model: provider.completionModel(MODEL), prompt: "[[say: hello]]", maxRetries: 0 });
    assert.equal(text, "hello");
  },
  async completion_streamed() {
    const result = streamText({ model: provider.completionModel(MODEL), prompt: "[[say: hello there]]", maxRetries: 0 });
    assert.equal(await result.text, "hello there");
  },
  async embeddings() {
    const { embeddings, usage } = await embedMany({ model: provider.embeddingModel(MODEL), values: ["a", "b"], maxRetries: 0 });
    assert.deepEqual([embeddings.length, embeddings[0].length], [2, 64]);
    assert.ok(usage.tokens > 0);
  },
  async abort() {
    const mark = randomUUID();
    await fault({ slow: 0.05 });
    const controller = new AbortController();
    const result = streamText(asked(`[[tokens: 400]] ${mark}`, { abortSignal: controller.signal, maxOutputTokens: 400 }));
    let seen = 0;
    for await (const part of result.fullStream) if (part.type === "text-delta" && ++seen === 3) controller.abort();
    for (let at = 0; at < 80; at++) {
      if ((await log()).some((entry) => entry.raw.includes(mark) && entry.aborted)) return;
      await new Promise((done) => setTimeout(done, 100));
    }
    assert.fail("the engine went on");
  },
  async error_status() {
    const error = await generate("x", { temperature: 7 }).then(() => undefined, (raised) => raised);
    assert.ok(APICallError.isInstance(error), `${error}`);
    assert.deepEqual([error.statusCode, error.isRetryable], [400, false]);
    assert.match(error.message, /temperature/, "the message is read out of the error's body");
  },
  async error_is_retried() {
    await fault({ status: 429, headers: { "retry-after-ms": "1" }, body: { error: { message: "busy", code: 429 } }, times: 1 });
    assert.equal((await generate("[[say: at last]]", { maxRetries: 2 })).text, "at last");
  },
  async error_in_a_stream() {
    await fault({ error_in_stream: 3 });
    const found = await parts(streamText(asked("[[tokens: 30]]")));
    assert.ok(found.some((part) => part.type === "error"));
  },
  async stream_broken() {
    await fault({ cut_after_tokens: 3 });
    const result = streamText(asked("[[tokens: 30]]"));
    const found = await parts(result).catch(() => [{ type: "error" }]);
    assert.ok(found.some((part) => part.type === "error"), "a short answer instead of an error");
  },
});
