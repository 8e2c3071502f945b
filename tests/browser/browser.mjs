// SPDX-License-Identifier: Apache-2.0
// Shared by the browser tests: starts Chromium, opens the dashboard, waits for conditions.
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));

function skip(reason) {
  console.log(`skipped: ${reason}`);
  process.exit(77);
}

function findChromium() {
  return ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((name) => fs.existsSync(name)) ?? skip("Chromium is not installed (Debian: chromium)");
}

function findPlaywright() {
  try {
    return createRequire(path.join(here, "../../web/package.json"))("playwright-core");
  } catch {
    return skip("playwright-core is not installed: run npm ci in web/");
  }
}

// Exits with code 77 and prints the reason if Chromium or playwright-core is missing.
export async function launch() {
  const executablePath = findChromium();
  const args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  return await findPlaywright().chromium.launch({ executablePath, args });
}

export async function until(what, ask, turns = 200) {
  for (let turn = 0; turn < turns; turn++) {
    if (await ask()) {
      return;
    }
    await new Promise((done) => setTimeout(done, 100));
  }
  assert.fail(`timed out waiting until ${what}`);
}

export const tile = (page, name) => page.locator(`[data-tile="${name}"]`).getAttribute("data-value");

export async function open(browser, server, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.faults = [];
  page.strangers = [];
  page.on("pageerror", (fault) => page.faults.push(String(fault)));
  page.on("console", (line) => line.type() === "error" && page.faults.push(line.text()));
  page.on("request", (request) => !request.url().startsWith(server.base) && !request.url().startsWith("data:") && page.strangers.push(request.url()));
  await page.goto(server.url);
  await page.waitForSelector("[data-tile=step]");
  return page;
}
