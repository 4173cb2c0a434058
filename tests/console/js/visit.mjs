// Opens every view of the page in a browser, and prints what is wrong with each as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [browserPath, url, guardedUrl, key, views, pictures] = process.argv.slice(2);
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = [
  ...["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"],
  ...["--disable-component-update", "--renderer-process-limit=1"],
];
const SERIOUS = new Set(["serious", "critical"]);
const PATIENCE_MS = 20_000;

/** A tab that collects violations of the policy, errors of scripts, and requests to other servers. */
async function openTab(browser, options) {
  const context = await browser.newContext(options);
  const tab = await context.newPage();
  const report = { violations: [], errors: [], foreign: [] };
  await tab.exposeFunction("reportViolation", (text) => report.violations.push(text));
  await tab.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      window.reportViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`),
    );
  });
  tab.on("pageerror", (error) => report.errors.push(String(error)));
  tab.on("request", (request) => {
    const address = request.url();
    if (![url, guardedUrl].some((own) => address.startsWith(own)) && !/^(data|blob):/.test(address)) {
      report.foreign.push(address);
    }
  });
  return { context, tab, report };
}

/** Waits until the page shows more than an empty frame and asks for nothing new for half a second. */
async function settle(tab) {
  await tab.waitForFunction(() => document.querySelector("main")?.innerText.trim(), null, { timeout: PATIENCE_MS });
  let requests = 1;
  tab.on("request", () => requests++);
  while (requests) {
    requests = 0;
    await tab.waitForTimeout(500);
  }
}

async function faultsOf(tab) {
  await tab.evaluate(AXE);
  const { violations } = await tab.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter(({ impact }) => SERIOUS.has(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target.join(" ")).slice(0, 5).join(", ")}`);
}

async function visit(browser, name, path, colorScheme, viewport) {
  const { context, tab, report } = await openTab(browser, { colorScheme, viewport });
  await tab.goto(url + path);
  await settle(tab);
  report.faults = await faultsOf(tab);
  report.title = await tab.title();
  report.text = await tab.evaluate(() => document.body.innerText);
  report.overflows = await tab.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  if (pictures) {
    await tab.screenshot({ path: join(pictures, `${name}-${colorScheme}-${viewport.width}.png`), fullPage: true });
  }
  await context.close();
  return report;
}

/** Signs in with the key, reads the session, and signs out by a request of the page's own. */
async function signIn(browser) {
  const { context, tab, report } = await openTab(browser, {});
  await tab.goto(guardedUrl);
  const field = tab.locator("input").first();
  await field.waitFor({ timeout: PATIENCE_MS });
  report.faults = await faultsOf(tab);
  await field.fill(key);
  await field.press("Enter");
  await tab.waitForFunction(
    async () => (await (await fetch("/api/session")).json()).signedIn,
    null,
    { timeout: PATIENCE_MS, polling: 200 },
  );
  await settle(tab);
  report.cookies = await context.cookies();
  report.readable = await tab.evaluate(() => document.cookie);
  report.signedOut = await tab.evaluate(async () => (await fetch("/api/session", { method: "DELETE" })).status);
  report.after = await tab.evaluate(async () => (await fetch("/api/questions")).status);
  await context.close();
  return report;
}

const browser = await chromium.launch({ executablePath: browserPath, args: FLAGS });
const reports = {};
for (const [name, path] of Object.entries(JSON.parse(views))) {
  reports[name] = await visit(browser, name, path, "light", { width: 1280, height: 800 });
  reports[`${name} dark`] = await visit(browser, name, path, "dark", { width: 360, height: 740 });
}
reports["sign in"] = await signIn(browser);
await browser.close();
console.log(JSON.stringify(reports));
