// What record.py is to Python: the target, and one JSON line a case.

import { appendFileSync } from "node:fs";

const env = process.env;
export const URL = env.CONFORMANCE_URL;
export const KEY = env.CONFORMANCE_KEY;
export const MODEL = env.CONFORMANCE_MODEL;
export const NARROW_KEY = env.CONFORMANCE_NARROW_KEY ?? "";
const BACKENDS = env.CONFORMANCE_BACKENDS.split(" ");

export class Skip extends Error {}

function tell(name, outcome, why = "") {
  appendFileSync(env.CONFORMANCE_RESULTS, JSON.stringify({ case: name, outcome, why: why.slice(0, 400) }) + "\n");
}

export async function run(cases) {
  for (const [name, test] of Object.entries(cases)) {
    await clear();
    try {
      await test();
      tell(name, "passed");
    } catch (error) {
      if (error instanceof Skip) tell(name, "skipped", error.message);
      else tell(name, "failed", `${error?.name}: ${error?.message}`.replace(/\s+/g, " "));
    }
  }
  await clear();
}

// Twice, as a connection that was kept may have been closed meanwhile.
async function call(url, options = {}) {
  return fetch(url, options).catch(() => fetch(url, options));
}

// A rule of the look-alikes' faults, on each of them.
export async function fault(rule) {
  for (const root of BACKENDS) {
    const headers = { "content-type": "application/json" };
    await call(`${root}/fake/faults`, { method: "POST", headers, body: JSON.stringify(rule) });
  }
}

async function clear() {
  for (const root of BACKENDS) await call(`${root}/fake/faults`, { method: "DELETE" });
}

// What the look-alikes were sent.
export async function log() {
  const found = [];
  for (const root of BACKENDS) found.push(...(await (await call(`${root}/fake/log?path=/v1/`)).json()));
  return found;
}
