// OpenAI's Codex CLI, which speaks `/v1/responses` alone: `codex exec` with a provider of its config.toml.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { fault, KEY, log, MODEL, run, URL as base } from "./record.mjs";

const program = join(dirname(fileURLToPath(import.meta.url)), "node_modules/@openai/codex/bin/codex.js");
const home = process.cwd();
const work = mkdtempSync(join(home, "work-"));
mkdirSync(join(home, ".codex"), { recursive: true });
writeFileSync(
  join(home, ".codex/config.toml"),
  `model = "${MODEL}"\nmodel_provider = "target"\n[model_providers.target]\nname = "target"\nbase_url = "${base}"\n` +
    'env_key = "TARGET_KEY"\nwire_api = "responses"\nrequest_max_retries = 2\nstream_max_retries = 0\n',
);

// What `codex exec --json` tells, one object a line.
function codex(prompt, { key = KEY, more = [], status = 0 } = {}) {
  const words = [program, "exec", "--skip-git-repo-check", "--json", ...more, `${randomUUID()} ${prompt}`];
  const env = { ...process.env, HOME: home, TARGET_KEY: key };
  const done = spawnSync(process.execPath, words, { cwd: work, env, input: "", encoding: "utf-8", timeout: 60_000 });
  assert.equal(done.status, status, done.stdout.slice(-300) + done.stderr.slice(-300));
  const lines = done.stdout.split("\n").filter((line) => line.startsWith("{"));
  return lines.map((line) => JSON.parse(line));
}
const items = (events, type) => events.filter((event) => event.item?.type === type).map((event) => event.item);
const last = (events) => items(events, "agent_message").at(-1)?.text;

await run({
  text() {
    const events = codex("[[say: hello there]]");
    assert.equal(last(events), "hello there");
    assert.ok(events.at(-1).usage.output_tokens > 0);
  },
  conversation() {
    const first = codex("[[say: one]]");
    const thread = first.find((event) => event.type === "thread.started").thread_id;
    assert.equal(last(codex("[[say: two]]", { more: ["resume", thread] })), "two");
  },
  async tool() {
    const mark = randomUUID();
    const call = `[[tool: exec_command {"cmd": "echo ${mark}"}]] [[say: done]]`;
    assert.equal(last(codex(call)), "done");
    const sent = (await log()).filter((entry) => entry.raw.includes(mark));
    assert.equal(sent.length, 2, "the tool's result was not sent back");
    assert.ok(sent.some((entry) => entry.raw.includes("function_call_output")));
  },
  async error_is_retried() {
    await fault({ status: 503, body: { error: { message: "overloaded", code: 503 } }, times: 1 });
    assert.equal(last(codex("[[say: at last]]")), "at last");
  },
  error_401() {
    const told = codex("x", { key: "sk-wrong", status: 1 });
    assert.ok(told.some((event) => event.type === "turn.failed" && /401/.test(event.error.message)), JSON.stringify(told));
  },
  async stream_broken() {
    await fault({ cut_after_tokens: 3 });
    const told = codex("[[tokens: 30]]", { status: 1 });
    assert.ok(told.some((event) => event.type === "turn.failed"), JSON.stringify(told));
  },
});
