// What the browser tests share: servers in processes of their own, tabs that collect what goes wrong, and a report.
import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { ScriptedModel } from "./model.mjs";

export const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 30_000);
export const { python, browserPath, folder, pictures } = JSON.parse(process.argv[2]);
/** A first request of each workflow that the offline model knows. */
export const EXAMPLES = {
  ad_creation: "20 seconds for Harbour Bikes, e-bikes by the hour in Porto. First hour free until 30 June.",
  fact_narration: "My student is 10. Plants make their own food. Leaves take in carbon dioxide through tiny holes called stomata. Roots take up water from the soil.",
  page_builder: "make a landing page for Miel, a bakery in Lyon",
  scene_edit: "make a video about a bakery",
  campaign_search: "what is the most common channel",
};
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const COMMAND = ["-m", "callsheet.server.cli.main"];
const FLAGS = [
  ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
  ...["--disable-sync", "--disable-component-update", "--renderer-process-limit=2"],
];
const SERIOUS = new Set(["serious", "critical"]);

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Wait until `condition` returns something true, and return it. */
export async function until(condition, what, patienceMs = PATIENCE_MS) {
  const end = Date.now() + patienceMs;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not in time: ${what}`);
    await pause(50);
  }
}

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** `callsheet serve` with data of its own, which outlive it. */
export class Server {
  constructor(name, env = {}) {
    this.data = join(folder, name);
    this.env = { ...process.env, ...env };
  }

  async start() {
    this.port ??= await freePort();
    this.url = `http://127.0.0.1:${this.port}`;
    const words = [...COMMAND, "serve", "--port", String(this.port), "--data-dir", this.data];
    this.output = "";
    this.process = spawn(python, words, { cwd: folder, env: this.env });
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on("data", (text) => { this.output += text; });
    this.ended = new Promise((resolve) => this.process.once("exit", resolve));
    await until(() => {
      if (this.process.exitCode !== null) throw new Error(this.output);
      return fetch(`${this.url}/ok`).then((reply) => reply.ok, () => false);
    }, "the server answers", 4 * PATIENCE_MS);
    return this;
  }

  /** Start it unless it runs. */
  ensure() {
    this.starting ??= this.start();
    return this.starting;
  }

  async stop(signal = "SIGINT") {
    if (!this.process) return;
    this.process.kill(signal);
    const kill = setTimeout(() => this.process.kill("SIGKILL"), 15_000);
    await this.ended;
    clearTimeout(kill);
  }

  createKey(owner, permission) {
    const words = [...COMMAND, "keys", "create", owner, "--permission", permission, "--json", "--data-dir", this.data];
    return JSON.parse(execFileSync(python, words, { cwd: folder, env: this.env, encoding: "utf8" })).key;
  }

  async send(method, path, body, headers = {}) {
    await this.ensure();
    const init = body === undefined ? {} : { body: JSON.stringify(body) };
    const reply = await fetch(this.url + path, { method, headers: { "Content-Type": "application/json", ...headers }, ...init });
    const text = await reply.text();
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }
}

const model = new ScriptedModel();
await model.start();
/** Three servers: with the offline model, with a scripted one, and one that asks for keys. */
export const offline = new Server("offline");
export const scripted = Object.assign(new Server("scripted", model.environ), { model });
export const guarded = new Server("guarded", { CALLSHEET_AUTH: "keys" });

let browser;
let tabs = [];

/** Open a page; violations of the policy, errors of scripts and requests to other servers are collected. */
export async function open(server, path, options = {}) {
  await server.ensure?.();
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const tab = await context.newPage();
  tab.setDefaultTimeout(PATIENCE_MS);
  tab.problems = [];
  tabs.push(tab);
  await tab.exposeFunction("reportViolation", (text) => tab.problems.push(`policy: ${text}`));
  await tab.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      window.reportViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`),
    );
  });
  tab.on("pageerror", (error) => tab.problems.push(`script: ${error}`));
  tab.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource/.test(message.text())) tab.problems.push(message.text());
  });
  context.on("page", () => tab.problems.push("a second tab was opened"));
  tab.on("dialog", (dialog) => { tab.problems.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
  tab.on("request", (request) => {
    const address = request.url();
    const own = address.startsWith(`${server.url}/`);
    if (!own && !/^(data|blob|about):/.test(address)) tab.problems.push(`request: ${address}`);
  });
  await tab.goto(server.url + path);
  await tab.locator("main").waitFor();
  return tab;
}

/** Wait until the page shows more than an empty frame, no skeleton, and asks for nothing new for a moment. */
export async function settle(tab) {
  await tab.waitForFunction(() => document.querySelector("main")?.innerText.trim() && !document.querySelector(".skeleton"));
  let requests = 1;
  const count = () => { requests += 1; };
  tab.on("request", count);
  while (requests) {
    requests = 0;
    await pause(250);
  }
  tab.off("request", count);
}

/** Faults that axe calls serious; transitions are ended first, since they change colours. */
export async function faultsOf(tab) {
  await tab.evaluate(() => document.getAnimations().forEach((one) => { try { one.finish(); } catch { one.cancel(); } }));
  await tab.evaluate(AXE);
  const { violations } = await tab.evaluate(() => window.axe.run(document, { resultTypes: ["violations"], iframes: false }));
  return violations
    .filter(({ impact }) => SERIOUS.has(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target.join(" ")).slice(0, 5).join(", ")}`);
}

/** Take a picture of the whole pane in both themes, if pictures are wanted. */
export async function picture(tab, name) {
  for (const colorScheme of pictures ? ["light", "dark"] : []) {
    await tab.emulateMedia({ colorScheme });
    await tab.evaluate(() => document.getAnimations().forEach((one) => { try { one.finish(); } catch { one.cancel(); } }));
    await tab.screenshot({ path: join(pictures, `${name}-${colorScheme}.png`) });
  }
}

/** Milliseconds of processor time of the longest task of the page's main thread while `act` goes on. */
export async function longestTask(tab, act) {
  await browser.startTracing(tab, { categories: ["toplevel", "__metadata"] });
  await act();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const main = new Set(traceEvents.filter((one) => one.name === "thread_name" && one.args.name === "CrRendererMain").map((one) => `${one.pid}/${one.tid}`));
  const tasks = traceEvents.filter((one) => one.tdur !== undefined && main.has(`${one.pid}/${one.tid}`));
  if (tasks.length === 0) throw new Error("the trace has no tasks");
  return Math.max(...tasks.map((one) => one.tdur)) / 1000;
}

const tests = [];
export const figures = {};

/** A test by its name, which the caller of this program knows too. */
export const test = (name, run) => tests.push({ name, run });

/** What a tab shows, in words, where the focus is, and how far the conversation is scrolled. */
async function shownIn(tab) {
  if (tab.isClosed()) return "a tab is closed";
  const shown = await tab.evaluate(() => {
    const focused = document.activeElement?.outerHTML.slice(0, 200);
    const { scrollTop = 0, scrollHeight = 0, clientHeight = 0 } = document.querySelector(".conversation") ?? {};
    return `the focus is on ${focused}; ${scrollTop} + ${clientHeight} of ${scrollHeight} px\n${document.body.innerText.slice(0, 3000)}`;
  }).catch(String);
  return `${tab.url()} shows, ${shown}`;
}

async function runOne({ name, run }) {
  const start = performance.now();
  let error = "";
  model.reset();
  try {
    await run();
    const problems = tabs.flatMap((tab) => tab.problems);
    if (problems.length > 0) error = `the page reported ${problems.join("; ")}`;
  } catch (failure) {
    error = [failure.stack, ...tabs.flatMap((tab) => tab.problems), ...(await Promise.all(tabs.map(shownIn)))].join("\n");
    for (const [i, tab] of tabs.entries()) if (pictures && !tab.isClosed()) await tab.screenshot({ path: join(pictures, `failure-${i}.png`) }).catch(() => undefined);
  }
  for (const tab of tabs) await tab.context().close().catch(() => undefined);
  tabs = [];
  process.stderr.write(`${error ? "FAIL" : "ok"} ${((performance.now() - start) / 1000).toFixed(1)} s ${name}\n${error}`);
  return [name, { error, seconds: (performance.now() - start) / 1000 }];
}

/** Run the tests whose names contain `only`, and print their report. */
export async function runTests(only) {
  const servers = [offline, scripted, guarded];
  try {
    browser = await chromium.launch({ executablePath: browserPath, args: FLAGS });
    const reports = [];
    for (const one of tests.filter(({ name }) => name.includes(only))) reports.push(await runOne(one));
    console.log(JSON.stringify({ tests: Object.fromEntries(reports), figures }));
  } finally {
    await browser?.close();
    await Promise.all(servers.map((one) => one.stop()));
    model.stop();
  }
}
