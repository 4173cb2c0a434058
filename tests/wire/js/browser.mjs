// LangGraph's two hooks in a browser. Plays the scenarios and prints their reports as JSON.
import http from "node:http";
import net from "node:net";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { scenarios } from "./scenarios.mjs";

const [browserPath, api, guardedApi, key, only = "", screenshots] = process.argv.slice(2);
const FLAGS = [
  ...["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"],
  ...["--disable-component-update", "--renderer-process-limit=1"],
];
const HTML = '<!doctype html><meta charset="utf-8"><div id="root"></div><script type="module" src="/main.js"></script>';
const WORKERS = 6;
const PATIENCE_MS = 30_000;

async function listen(server) {
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${server.address().port}`;
}

async function servePage() {
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
    // The browser need not compile again what it may cache.
    reply.setHeader("Cache-Control", "max-age=3600");
    reply.setHeader("Content-Type", script ? "text/javascript" : "text/html");
    reply.end(script ?? HTML);
  });
  return await listen(server);
}

/** A TCP proxy to a server, whose connections can be cut. */
async function proxyTo(to) {
  const { hostname, port } = new URL(to);
  const open = new Set();
  const server = net.createServer((inward) => {
    const outward = net.connect(Number(port), hostname);
    const join = (source, target) => {
      open.add(source);
      source.pipe(target);
      source.on("error", () => target.destroy());
      source.on("close", () => open.delete(source) && target.destroy());
    };
    join(inward, outward);
    join(outward, inward);
  });
  return {
    url: await listen(server),
    cut: () => [...open].map((socket) => socket.destroy()).length / 2,
    close: () => server.close(),
  };
}

/** Opens a tab with its own proxy, because browsers open at most six connections to one address. */
async function openTab(context, address, query) {
  const proxy = await proxyTo(query.key ? guardedApi : api);
  const page = await context.newPage();
  const pageErrors = [];
  const failedRequests = [];
  page.on("pageerror", (error) => pageErrors.push(String(error)));
  page.on("requestfailed", (request) =>
    failedRequests.push(`${request.method()} ${request.url()} ${request.failure()?.errorText}`),
  );
  await page.goto(`${address}/?${new URLSearchParams({ api: proxy.url, ...query })}`);
  const tab = {
    page,
    pageErrors,
    /** Requests without a reply, with the reason, which the hooks do not give. */
    failedRequests,
    cut: proxy.cut,
    close: () => page.close().finally(proxy.close),
    waitUntil: (condition, argument) => page.waitForFunction(condition, argument, { polling: 50 }),
    waitForText: (text) => page.getByText(text).first().waitFor(),
    readRecord: () => page.evaluate(() => record),
    messages: () => page.locator("li q").allTextContents(),
    /** The state that the server has stored. */
    state: () => page.evaluate(() => client.threads.getState(thread)),
    press: async (name, nth = 0) => {
      await page.evaluate(() => (window.before = { statuses: record.statuses.length, answers: record.answers.length }));
      await page.getByRole("button", { name, exact: true }).nth(nth).click();
    },
    fillAndPress: async (words, name, nth) => {
      await page.getByLabel("words").fill(words);
      await tab.press(name, nth);
    },
    send: (words) => tab.fillAndPress(words, "Send"),
    waitForIdle: () => tab.waitUntil(() => record.statuses.at(-1) === "idle"),
    /** Wait until the last press has started a run and the run has ended. */
    waitForRunEnd: () =>
      tab.waitUntil(
        () => record.statuses.slice(before.statuses).includes("running") && record.statuses.at(-1) === "idle",
      ),
    /** Wait for this reply to the last press, and for the end of the run, which may come first. */
    waitForReply: async (text) => {
      await tab.waitUntil((expected) => record.answers.slice(before.answers).at(-1)?.startsWith(expected), text);
      await tab.waitForRunEnd();
    },
    /** Wait for so many custom events. */
    waitForTicks: (count) => tab.waitUntil((expected) => record.ticks.length >= expected, count),
    report: async () => ({
      ...(await tab.readRecord()),
      messages: await tab.messages(),
      tools: await page.locator("ul.tools li").allTextContents(),
      progress: await page.locator("ul.progress li").allTextContents(),
      graphs: await page.locator("ul.graphs li").allTextContents(),
      state: await tab.state(),
      runs: await page.evaluate(async () => (await client.runs.list(thread)).map((run) => run.status)),
    }),
  };
  return tab;
}

async function playScenario(context, address, { title, query, play }) {
  const tabs = [];
  const open = async (more) => {
    tabs.push(await openTab(context, address, { ...query, ...more }));
    return tabs.at(-1);
  };
  const report = { failure: "" };
  try {
    Object.assign(report, await play(open, key));
  } catch (error) {
    const details = tabs.map(async ({ page, readRecord, failedRequests }) => [
      await page.locator("body").innerText(),
      JSON.stringify(await readRecord()),
      ...failedRequests,
    ]);
    report.failure = [error, ...(await Promise.all(details)).flat()].join("\n");
  }
  if (screenshots) await tabs[0].page.screenshot({ path: `${screenshots}/${title}.png` });
  report.pageErrors = tabs.flatMap((tab) => tab.pageErrors);
  await Promise.all(tabs.map((tab) => tab.close()));
  return report;
}

const address = await servePage();
const browser = await chromium.launch({ executablePath: browserPath, args: FLAGS });
const context = await browser.newContext({ viewport: { width: 800, height: screenshots ? 1200 : 200 } });
context.setDefaultTimeout(PATIENCE_MS);
const waiting = scenarios.filter(({ title }) => title.includes(only));
const results = {};
const worker = async () => {
  for (let scenario = waiting.shift(); scenario; scenario = waiting.shift())
    results[scenario.title] = await playScenario(context, address, scenario);
};
await Promise.all(Array.from({ length: screenshots ? 1 : WORKERS }, worker));
await browser.close();
process.stdout.write(JSON.stringify(results), () => process.exit(0));
