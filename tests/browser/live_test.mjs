// SPDX-License-Identifier: Apache-2.0
// Tests the dashboard with a run of two workers that is training.
//
//   node live_test.mjs LOCKSTEP MNIST [--screenshots DIR]
//
// Trains on MNIST if LOCKSTEP_DATA_DIR contains it, else on generated digits. Exits with code 77 and
// prints the reason if Chromium or playwright-core is missing.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { launch, open, tile, until } from "./browser.mjs";

const [lockstep, mnist, , shots] = process.argv.slice(2).map((name) => path.resolve(name));
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), "live-"));
const data = process.env.LOCKSTEP_DATA_DIR;
const digits = data && fs.existsSync(path.join(data, "mnist")) ? [] : ["--generated-digits"];
const children = [];

// Starts `lockstep run --dashboard` and waits until it has printed the address.
async function train(name, ...flags) {
  const child = spawn(
    lockstep,
    ["run", "--nproc-per-node", "2", "--run-dir", `runs/${name}`, "--dashboard", "--", mnist, ...digits, "--report-every", "1", ...flags],
    { cwd: scratch, env: { ...process.env, OMP_NUM_THREADS: "1" } },
  );
  children.push(child);
  const run = { child, directory: path.join(scratch, "runs", name), text: "" };
  run.ended = new Promise((done) => child.on("exit", (code, signal) => done(code ?? signal)));
  const listen = (bytes) => (run.text += bytes);
  child.stdout.on("data", listen);
  child.stderr.on("data", listen);
  await until("the dashboard prints its address", () => /ssh -N .*\n/.test(run.text), 600);
  const [, base, token] = /(http:\/\/[^/]+)\/\?token=(\w+)/.exec(run.text);
  return Object.assign(run, { base, url: `${base}/?token=${token}` });
}

// The events of rank 0 so far, without an incomplete last line.
function events(run, kind) {
  const file = path.join(run.directory, "events", "rank-0.jsonl");
  const lines = fs.existsSync(file) ? fs.readFileSync(file, "utf8").split("\n").slice(0, -1) : [];
  return lines.map((line) => JSON.parse(line)).filter((event) => event.event === kind);
}

// All tiles in one query, because they change between two queries.
function read(page) {
  return page.evaluate(() => Object.fromEntries([...document.querySelectorAll("[data-tile]")].map((each) => [each.dataset.tile, Number(each.dataset.value)])));
}

// The process that serves the page.
function server(run) {
  const port = new URL(run.base).port;
  const inode = fs.readFileSync("/proc/net/tcp", "utf8").split("\n").map((line) => line.trim().split(/\s+/))
    .find((words) => words[1]?.endsWith(`:${Number(port).toString(16).toUpperCase().padStart(4, "0")}`) && words[3] === "0A")[9];
  return Number(fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name)).find((pid) => {
    try {
      return fs.readdirSync(`/proc/${pid}/fd`).some((fd) => fs.readlinkSync(`/proc/${pid}/fd/${fd}`) === `socket:[${inode}]`);
    } catch {
      return false; // ended, or a process of another user
    }
  }));
}

const tests = {
  async "draws a run while it trains, with the numbers of its events"(browser) {
    const run = await train("live", "--net", "mlp", "--epochs", "200", "--no-checkpoint");
    const page = await open(browser, run);
    const seen = new Map();
    await until("five steps were shown", async () => {
      const tiles = await read(page);
      if (tiles.step > 0) {
        seen.set(tiles.step, tiles);
      }
      return seen.size >= 5;
    }, 900);
    assert.equal(run.child.exitCode, null, "it still trains");
    const written = new Map(events(run, "step").map((event) => [event.step, event]));
    for (const [step, tiles] of seen) {
      const event = written.get(step);
      assert.ok(event, `step ${step} is an event`);
      assert.equal(tiles.loss, event.loss);
      assert.equal(tiles["learning rate"], event.learning_rate);
      assert.equal(tiles["samples/s"], event.samples_per_second);
    }
    const ranks = await page.evaluate(async () => (await (await fetch("/api/snapshot")).json()).workers.rank);
    assert.deepEqual(ranks, [0, 1]);
    assert.ok(await page.locator('[data-chart="loss"] canvas').isVisible());
    assert.deepEqual(page.faults, []);
    run.child.kill("SIGTERM");
    await run.ended;
  },

  async "continues training when its dashboard is killed"() {
    const run = await train("alone", "--net", "mlp", "--epochs", "3");
    await until("it trains", () => events(run, "step").length > 2, 600);
    const before = events(run, "step").at(-1).step;
    process.kill(server(run), "SIGKILL");
    assert.equal(await run.ended, 0, run.text);
    assert.equal(events(run, "end").length, 1);
    assert.ok(events(run, "end")[0].step > before, "training continued afterwards");
  },
};

// Two runs of the CNN with different learning rates; the second one is still running.
async function takeShots(browser) {
  const slow = await train("mnist-lr-0.005", "--lr", "0.005", "--epochs", "2");
  assert.equal(await slow.ended, 0, slow.text);
  const run = await train("mnist-lr-0.02", "--lr", "0.02", "--epochs", "2");
  await until("it has been through half", () => events(run, "step").at(-1)?.epoch >= 1, 3000);
  const child = spawn(lockstep, ["dashboard", run.directory, slow.directory]);
  children.push(child);
  let text = "";
  child.stdout.on("data", (bytes) => (text += bytes));
  await until("the other dashboard prints its address", () => /ssh -N .*\n/.test(text));
  const [url, base] = /(http:\/\/[^/]+)\/\?token=\w+/.exec(text);
  for (const colorScheme of ["dark", "light"]) {
    const page = await open(browser, { url, base }, { colorScheme, viewport: { width: 1100, height: 830 } });
    await page.waitForTimeout(2000);
    await page.screenshot({ path: path.join(shots, `dashboard-${colorScheme}.png`) });
  }
  run.child.kill("SIGTERM");
}

const browser = await launch();
let failed = 0;
try {
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test(browser);
      console.log(`ok: ${name}`);
    } catch (fault) {
      failed++;
      console.log(`FAILED: ${name}\n${fault.stack}`);
    }
  }
  if (shots) {
    await takeShots(browser);
  }
} finally {
  await browser.close();
  children.forEach((child) => child.exitCode === null && child.kill("SIGTERM"));
  await Promise.all(children.map((child) => child.exitCode === null && child.signalCode === null && new Promise((done) => child.on("exit", done))));
  fs.rmSync(scratch, { recursive: true, force: true });
}
console.log(failed ? `${failed} failed` : "all well");
process.exit(failed ? 1 : 0);
