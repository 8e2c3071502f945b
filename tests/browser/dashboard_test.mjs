// SPDX-License-Identifier: Apache-2.0
// Tests the dashboard in a real browser with run directories that this script writes.
//
//   node dashboard_test.mjs LOCKSTEP [--large]
//
// Exits with code 77 and prints the reason if Chromium or playwright-core is missing.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { launch, open, tile, until } from "./browser.mjs";
import { FakeRun } from "./fake_run.mjs";

const lockstep = path.resolve(process.argv[2] ?? "build/bin/lockstep");
const wants = (flag) => process.argv.includes(flag);

const servers = []; // all servers that were started
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), "dashboard-"));

// Starts `lockstep dashboard` and finds its address; `stop` ends it.
async function serve(...runs) {
  const child = spawn(lockstep, ["dashboard", ...runs], { cwd: scratch });
  servers.push(child);
  let text = "";
  child.stderr.on("data", (bytes) => process.stderr.write(bytes));
  for await (const bytes of child.stdout) {
    text += bytes;
    if (/ssh -N .*\n/.test(text)) {
      break;
    }
  }
  const [, base, token] = /(http:\/\/[^/]+)\/\?token=(\w+)/.exec(text);
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGTERM");
      await new Promise((done) => child.on("exit", done));
    }
  };
  return { base, token, url: `${base}/?token=${token}`, child, stop, text };
}

function smallRun(name, steps = 200, worse = 1) {
  const run = new FakeRun(path.join(scratch, "runs", name), { workers: 4 });
  for (let step = 1; step <= steps; step += 4) {
    for (let rank = 0; rank < 4; rank++) {
      const { loss, samples_per_second } = run.stepOf(rank, step);
      run.step(rank, step, { loss: loss * worse, samples_per_second: samples_per_second / worse });
    }
  }
  run.evaluation(100, 0.61);
  run.evaluation(200, 0.83);
  run.checkpoint(150);
  run.sample(0, [0, 1, 2, 3], run.started + steps * 0.25);
  for (let line = 0; line < 300; line++) {
    run.say(0, `step ${line} done${line === 123 ? ", a NEEDLE in it" : ""}`);
    run.say(1, `rank one says ${line}`);
  }
  return run;
}

const tests = {
  async "shows the content of the files, and additions to them, without a reload"(browser) {
    const run = smallRun("live");
    const server = await serve("runs/live");
    const page = await open(browser, server);
    const last = run.stepOf(0, 197);

    assert.equal(Number(await tile(page, "step")), 197);
    assert.equal(Number(await tile(page, "loss")), last.loss);
    assert.equal(Number(await tile(page, "learning rate")), last.learning_rate);
    assert.equal(Number(await tile(page, "samples/s")), last.samples_per_second);
    assert.equal(Number(await tile(page, "accuracy")), 0.83);
    assert.equal(Number(await tile(page, "checkpoint")), 150);
    assert.match(await page.locator("#rank-caption").textContent(), /rank 0 .*Fake GPU.*utilization 90 %.*400 W/);
    assert.equal(new URL(page.url()).search, "", "the token leaves the address bar");
    for (const chart of ["loss", "learning rate", "samples per second", "accuracy"]) {
      assert.ok(await page.locator(`[data-chart="${chart}"] canvas`).isVisible(), chart);
    }
    const compute = Number(await page.locator('[data-phase="compute"]').getAttribute("data-value"));
    assert.ok(compute > 0.03 && compute < 0.06, `0.15 s and a little per event of four steps: ${compute}`);

    const next = {};
    for (let rank = 0; rank < 4; rank++) {
      next[rank] = run.step(rank, 201, rank === 0 ? { loss: 0.123456789 } : {});
    }
    await until("the new loss is shown", async () => Number(await tile(page, "loss")) === 0.123456789);
    await page.locator('[data-chart="loss"] summary').click();
    await page.waitForSelector('[data-chart="loss"] table[data-curve]');
    const values = await page.locator('[data-chart="loss"] table[data-curve]').first().locator("td[data-value]").evaluateAll((cells) => cells.map((cell) => Number(cell.dataset.value)));
    assert.equal(values.at(-1), 0.123456789);
    assert.equal(values.at(-2), last.loss);
    assert.deepEqual(page.faults, []);
    assert.deepEqual(page.strangers, [], "no requests to other servers");
    await server.stop();
  },

  async "finds words in a rank's log and follows it"(browser) {
    const run = smallRun("words");
    const server = await serve("runs/words");
    const page = await open(browser, server);
    const lines = page.locator("#logs .line");

    await until("the tail is there", async () => (await lines.count()) === 300);
    await page.getByLabel("Search the log").fill("needle");
    await until("one line is left", async () => (await lines.count()) === 1);
    assert.match(await lines.first().textContent(), /step 123 done, a NEEDLE in it/);
    assert.equal(await page.locator("#logs mark").textContent(), "NEEDLE");
    run.say(0, "another needle");
    run.step(0, 202);
    await until("the new line appears automatically", async () => (await lines.count()) === 2);

    await page.getByLabel("Search the log").fill("");
    await page.getByLabel("Rank", { exact: true }).fill("1");
    await page.getByLabel("Rank", { exact: true }).press("Enter");
    await until("the log of rank 1 is shown", async () => /rank one says 299/.test((await lines.count()) ? await lines.last().textContent() : ""));
    await server.stop();
  },

  async "lays runs over each other, and zooms, pans and resets by mouse and keys"(browser) {
    smallRun("one");
    smallRun("two", 160);
    const server = await serve("runs/one", "runs/two");
    const page = await open(browser, server);
    const legend = page.locator('[data-chart="loss"] .u-legend');

    await until("both are there", async () => /one[\s\S]*two/.test(await legend.textContent()));
    await page.locator('#runs [data-run="1"]').uncheck();
    await until("one is left", async () => !/two/.test(await legend.textContent()));
    const over = page.locator('[data-chart="loss"] .u-over');
    const box = await over.boundingBox();
    const before = await page.locator('[data-chart="loss"] canvas').screenshot();
    await page.mouse.move(box.x + box.width * 0.3, box.y + 50);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 50, { steps: 5 });
    await page.mouse.up();
    await page.mouse.move(5, 5);
    const zoomed = await page.locator('[data-chart="loss"] canvas').screenshot();
    assert.ok(!before.equals(zoomed), "a drag zooms");
    await page.locator('[data-chart="loss"]').focus();
    await page.keyboard.press("ArrowRight");
    await until("an arrow pans", async () => !zoomed.equals(await page.locator('[data-chart="loss"] canvas').screenshot()));
    await page.keyboard.press("0");
    await until("0 shows all again", async () => before.equals(await page.locator('[data-chart="loss"] canvas').screenshot()));
    await page.locator("#axis").selectOption("time");
    assert.match(await legend.textContent(), /since start/);
    assert.deepEqual(page.faults, []);
    await server.stop();
  },

  async "compares ranks only if there are several"(browser) {
    const alone = new FakeRun(path.join(scratch, "runs", "alone"), { workers: 1 });
    for (let step = 1; step <= 40; step++) {
      alone.step(0, step);
    }
    smallRun("distributed");
    const server = await serve("runs/alone", "runs/distributed");
    const page = await open(browser, server);
    const heat = page.locator("#heat");

    assert.ok(!(await heat.isVisible()), "a single rank has no stragglers");
    await page.locator('#runs [data-run="0"]').uncheck();
    await until("the ranks of the second run are compared", async () => (await heat.isVisible()) && /Slowest: rank 1/.test(await heat.textContent()));
    await page.locator('#runs [data-run="0"]').check();
    await until("the comparison disappears with the second run", async () => !(await heat.isVisible()));
    assert.deepEqual(page.faults, []);
    await server.stop();
  },

  async "shows nothing without the token"(browser) {
    smallRun("secret");
    const server = await serve("runs/secret");
    const page = await (await browser.newContext()).newPage();

    for (const address of ["/", "/?token=", `/?token=${"0".repeat(32)}`, "/api/runs", "/app.js", "/metrics"]) {
      const answer = await page.goto(server.base + address);
      assert.equal(answer.status(), 403, address);
      assert.match(await answer.text(), /^access denied: .*\.\n$/);
    }
    assert.equal((await page.goto(server.url)).status(), 200);
    const [cookie] = await page.context().cookies();
    assert.ok(cookie.httpOnly && cookie.sameSite === "Strict");
    assert.equal((await page.goto(`${server.base}/api/runs`)).status(), 200, "the cookie is enough");
    assert.match(server.text, /ssh -N -L (\d+):127\.0\.0\.1:\1 /);
    await server.stop();
  },

  async "is readable on a phone and in both themes"(browser) {
    smallRun("phone");
    const server = await serve("runs/phone");
    const page = await open(browser, server, { viewport: { width: 375, height: 700 }, colorScheme: "dark" });

    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 375, `nothing overflows: ${width}`);
    const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await back();
    await page.locator("#theme").click();
    assert.notEqual(await back(), dark);
    assert.deepEqual(page.faults, []);
    await server.stop();
  },
};

const large = {
  async "1,000 ranks and a million points"(browser) {
    const run = new FakeRun(path.join(scratch, "runs", "large"), { workers: 1000 });
    const file = fs.openSync(run.file("events", "rank-0.jsonl"), "a");
    for (let from = 1; from <= 1e6; from += 10000) {
      let text = "";
      for (let step = from; step < from + 10000; step++) {
        text += JSON.stringify(run.stepOf(0, step)) + "\n";
      }
      fs.writeSync(file, text);
    }
    fs.closeSync(file);
    for (let rank = 1; rank < 1000; rank++) {
      let text = "";
      for (let step = 10000; step <= 1e6; step += 10000) {
        text += JSON.stringify(run.stepOf(rank, step)) + "\n";
      }
      fs.appendFileSync(run.file("events", `rank-${rank}.jsonl`), text);
    }
    for (let node = 0; node < 125; node++) {
      run.sample(node, [...Array(8).keys()].map((i) => node * 8 + i), run.started + 250000);
    }
    const folder = run.file("events");
    const written = fs.readdirSync(folder).reduce((sum, name) => sum + fs.statSync(path.join(folder, name)).size, 0);
    const server = await serve("runs/large");
    const begin = Date.now();
    const page = await open(browser, server);
    await until("all of it is read", async () => Number(await tile(page, "step")) === 1e6, 1200);
    const opened = (Date.now() - begin) / 1000;
    await page.waitForTimeout(3000);
    const frames = await page.evaluate(async () => {
      const chart = document.querySelector('[data-chart="loss"]');
      chart.focus();
      document.getElementById("in").click();
      const times = [];
      let last = performance.now();
      for (let i = 0; i < 120; i++) {
        document.getElementById(i % 40 < 20 ? "right" : "left").click();
        await new Promise((done) => requestAnimationFrame(done));
        const now = performance.now();
        times.push(now - last);
        last = now;
      }
      return times.sort((one, other) => one - other);
    });
    const at = (share) => frames[Math.floor(share * (frames.length - 1))].toFixed(1);
    console.log(`  ${(written / 1e6).toFixed(0)} MB of events read and shown after ${opened.toFixed(1)} s; a frame while panning: median ${at(0.5)} ms, 95 of 100 within ${at(0.95)} ms, longest ${at(1)} ms`);
    const sizes = await page.evaluate(async () => {
      const sizes = {};
      for (const name of ["snapshot", "series?name=loss", "heat"]) {
        const begin = performance.now();
        const text = await (await fetch(`/api/${name}`)).text();
        sizes[name] = `${text.length} bytes in ${(performance.now() - begin).toFixed(0)} ms`;
      }
      return sizes;
    });
    console.log(`  ${Object.entries(sizes).map(([name, text]) => `${name}: ${text}`).join("; ")}`);
    assert.deepEqual(page.faults, []);
    await server.stop();
  },
};

const browser = await launch();
let failed = 0;
try {
  for (const [name, test] of Object.entries({ ...tests, ...(wants("--large") ? large : {}) })) {
    try {
      await test(browser);
      console.log(`ok: ${name}`);
    } catch (fault) {
      failed++;
      console.log(`FAILED: ${name}\n${fault.stack}`);
    }
  }
} finally {
  await browser.close();
  servers.forEach((child) => child.kill("SIGTERM"));
  fs.rmSync(scratch, { recursive: true, force: true });
}
console.log(failed ? `${failed} failed` : "all well");
process.exit(failed ? 1 : 0);
