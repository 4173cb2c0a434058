// LangGraph's two hooks in a browser: what a person does and sees there. Prints what was seen as JSON.
import http from "node:http";
import net from "node:net";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { scenarios } from "./scenarios.mjs";

const [program, api, guarded, key, only = "", pictures] = process.argv.slice(2);
const FLAGS = [
  ...["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"],
  ...["--disable-component-update", "--renderer-process-limit=1"],
];
const HTML = '<!doctype html><meta charset="utf-8"><div id="root"></div><script type="module" src="/main.js"></script>';
const LANES = 6;
const PATIENCE_MS = 30_000;

async function listening(server) {
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${server.address().port}`;
}

async function site() {
  const { outputFiles } = await build({
    absWorkingDir: import.meta.dirname,
    entryPoints: ["page/main.jsx"],
    outdir: "/",
    bundle: true,
    minify: true,
    splitting: true,
    format: "esm",
    jsx: "automatic",
    write: false,
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const scripts = new Map(outputFiles.map(({ path, contents }) => [path, contents]));
  const server = http.createServer((request, reply) => {
    const script = scripts.get(request.url);
    // What a browser may keep it need not compile again.
    reply.setHeader("Cache-Control", "max-age=3600");
    reply.setHeader("Content-Type", script ? "text/javascript" : "text/html");
    reply.end(script ?? HTML);
  });
  return await listening(server);
}

/** A server under another address, over connections that can be cut. */
async function wire(to) {
  const { hostname, port } = new URL(to);
  const open = new Set();
  const server = net.createServer((inward) => {
    const outward = net.connect(Number(port), hostname);
    const join = (one, other) => {
      open.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => open.delete(one) && other.destroy());
    };
    join(inward, outward);
    join(outward, inward);
  });
  return {
    url: await listening(server),
    cut: () => [...open].map((one) => one.destroy()).length / 2,
    close: () => server.close(),
  };
}

/** A page on a wire of its own, for browsers open no more than six connections to one address. */
async function opened(context, address, query) {
  const line = await wire(query.key ? guarded : api);
  const page = await context.newPage();
  const complaints = [];
  const lost = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("requestfailed", (one) => lost.push(`${one.method()} ${one.url()} ${one.failure()?.errorText}`));
  await page.goto(`${address}/?${new URLSearchParams({ api: line.url, ...query })}`);
  const one = {
    page,
    complaints,
    /** Requests without a reply, and why: the hooks say no more than that there was none. */
    lost,
    cut: line.cut,
    close: () => page.close().finally(line.close),
    until: (condition, given) => page.waitForFunction(condition, given, { polling: 50 }),
    shown: (text) => page.getByText(text).first().waitFor(),
    seen: () => page.evaluate(() => seen),
    messages: () => page.locator("li q").allTextContents(),
    /** What the server has kept. */
    state: () => page.evaluate(() => client.threads.getState(thread)),
    press: async (name, nth = 0) => {
      await page.evaluate(() => (window.before = { lives: seen.lives.length, answers: seen.answers.length }));
      await page.getByRole("button", { name, exact: true }).nth(nth).click();
    },
    write: async (words, name, nth) => {
      await page.getByLabel("words").fill(words);
      await one.press(name, nth);
    },
    say: (words) => one.write(words, "Send"),
    idle: () => one.until(() => seen.lives.at(-1) === "idle"),
    /** Wait until what was last pressed has begun and ended a run. */
    ended: () => one.until(() => seen.lives.slice(before.lives).includes("running") && seen.lives.at(-1) === "idle"),
    /** Wait for this answer to what was last pressed, and the run's end, which may be seen first. */
    answered: async (text) => {
      await one.until((wanted) => seen.answers.slice(before.answers).at(-1)?.startsWith(wanted), text);
      await one.ended();
    },
    /** Wait until so much was told beside the answers. */
    ticked: (count) => one.until((wanted) => seen.ticks.length >= wanted, count),
    told: async () => ({
      ...(await one.seen()),
      messages: await one.messages(),
      tools: await page.locator("ul.tools li").allTextContents(),
      progress: await page.locator("ul.progress li").allTextContents(),
      graphs: await page.locator("ul.graphs li").allTextContents(),
      state: await one.state(),
      runs: await page.evaluate(async () => (await client.runs.list(thread)).map((run) => run.status)),
    }),
  };
  return one;
}

async function played(context, address, { title, query, play }) {
  const pages = [];
  const open = async (more) => {
    pages.push(await opened(context, address, { ...query, ...more }));
    return pages.at(-1);
  };
  const told = { failed: "" };
  try {
    Object.assign(told, await play(open, key));
  } catch (error) {
    const shown = pages.map(async ({ page, seen, lost }) => [
      await page.locator("body").innerText(),
      JSON.stringify(await seen()),
      ...lost,
    ]);
    told.failed = [error, ...(await Promise.all(shown)).flat()].join("\n");
  }
  if (pictures) await pages[0].page.screenshot({ path: `${pictures}/${title}.png` });
  told.complaints = pages.flatMap((one) => one.complaints);
  await Promise.all(pages.map((one) => one.close()));
  return told;
}

const address = await site();
const browser = await chromium.launch({ executablePath: program, args: FLAGS });
const context = await browser.newContext({ viewport: { width: 800, height: pictures ? 1200 : 200 } });
context.setDefaultTimeout(PATIENCE_MS);
const waiting = scenarios.filter(({ title }) => title.includes(only));
const results = {};
const lane = async () => {
  for (let one = waiting.shift(); one; one = waiting.shift()) results[one.title] = await played(context, address, one);
};
await Promise.all(Array.from({ length: pictures ? 1 : LANES }, lane));
await browser.close();
process.stdout.write(JSON.stringify(results), () => process.exit(0));
