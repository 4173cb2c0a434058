// Hostile texts in every field: they are shown as they are, and do nothing.
import assert from "node:assert/strict";
import { EXAMPLES, offline, open, settle, test } from "./harness.mjs";

const MARKUP = '<img src=x onerror="window.broken=1"><script>window.broken=1</script><iframe srcdoc="<script>parent.broken=1</script>"></iframe><svg onload="window.broken=1"> [a](javascript:window.broken=1) ![b](https://elsewhere.example/x.png) {{7*7}}';
const STRINGS = [
  MARKUP,
  "\u202Egnorw si siht\u202C \u2066\u2067\u2069 \u200Bzero\u200D \uFEFFwidth",
  "x".repeat(100_000),
  "👩‍👩‍👧‍👦🏴‍☠️🇦🇶\u{1F9D1}\u{1F3FF}\u200D\u{1F680} e\u0301\u0323\u0302\u0301\u0301\u0301\u0301 \uD83D",
  "' OR 1=1; -- ${process.exit()} %00 \\ \u0000 ../../etc/passwd",
];

async function assertHarmless(tab, place) {
  assert.equal(await tab.evaluate(() => window.broken), undefined, place);
  const foreign = await tab.locator("main :is(script, img, iframe[srcdoc], a[href^='javascript'])").count();
  assert.equal(foreign, 0, place);
  const [width, most] = await tab.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(width <= most, `${place}: ${width} pixels wide`);
}

/** Type a text into each field that is shown. */
async function fillAll(tab, text) {
  for (const field of await tab.locator("main :is(input:not([type]), input[type=text], input[type=search], textarea):visible:not([readonly]):enabled").all()) {
    await field.fill(text, { timeout: 2_000 }).catch((error) => { if (!/detached|not attached|Timeout/.test(String(error))) throw error; });
  }
}

test("hostile texts in the fields of every view do nothing", async () => {
  const tab = await open(offline, "/");
  for (const [i, text] of STRINGS.entries()) {
    for (const path of ["/", "/campaigns", "/artefacts"]) {
      await tab.goto(offline.url + path);
      await settle(tab);
      await fillAll(tab, text);
      if (path === "/campaigns") await tab.getByRole("button", { name: "Show", exact: true }).click();
      await settle(tab);
      await assertHarmless(tab, `${path} with text ${i}`);
    }
  }
});

test("hostile texts in requests, questions, states and names do nothing", async () => {
  const tab = await open(offline, "/");
  for (const [i, text] of STRINGS.entries()) {
    const { thread_id: order } = await offline.send("POST", "/threads", { metadata: { graph_id: "ordering" } });
    await offline.send("POST", `/threads/${order}/runs/wait`, { assistant_id: "ordering", input: { item: text.toWellFormed() } });
    const { thread_id: talk } = await offline.send("POST", "/threads", { metadata: { graph_id: "campaign_search" } });
    await offline.send("POST", `/threads/${talk}/runs/wait`, { assistant_id: "campaign_search", input: { messages: [{ role: "user", content: text.toWellFormed() }] } });
    for (const path of ["/", `/c/${order}`, `/inspect/${order}?tab=state`, `/c/${talk}`, `/inspect/${talk}?tab=state`]) {
      await tab.goto(offline.url + path);
      await settle(tab);
      await assertHarmless(tab, `${path} with text ${i}`);
    }
    await offline.send("DELETE", `/threads/${order}`);
    await offline.send("DELETE", `/threads/${talk}`);
  }
});

test("hostile addresses do nothing", async () => {
  const tab = await open(offline, "/");
  const hostile = encodeURIComponent(MARKUP);
  for (const path of [`/c/${hostile}`, `/inspect/${hostile}`, `/artefacts?kind=${hostile}`, `/campaigns?company=${hostile}&sort=${hostile}`, `/c/%E0%A4%A?stream=${hostile}&version=${hostile}`]) {
    await tab.goto(offline.url + path);
    await settle(tab);
    await assertHarmless(tab, path);
  }
});

test("hostile texts in an ad, a page and an imported file do nothing", async () => {
  const tab = await open(offline, "/campaigns");
  await tab.getByRole("button", { name: "Import" }).click();
  const cell = (text) => `"${text.replaceAll('"', '""')}"`;
  const row = cell(MARKUP);
  const content = `company,channel,campaign_text,${row}\n${row},email,${row},x\n${row},${row},,${row}\n`;
  await tab.getByLabel("File").setInputFiles({ name: "<img src=x>.csv", mimeType: "text/csv", buffer: Buffer.from(content) });
  await tab.getByRole("dialog").getByRole("button", { name: "Import", exact: true }).click();
  await tab.getByRole("dialog").locator("[role=status], [role=alert]").first().waitFor();
  await assertHarmless(tab, "import");
  const { thread_id: ad } = await offline.send("POST", "/threads", { metadata: { graph_id: "ad_creation" } });
  await offline.send("POST", `/threads/${ad}/runs/wait`, { assistant_id: "ad_creation", input: { messages: [{ role: "user", content: EXAMPLES.ad_creation }] } });
  await tab.goto(`${offline.url}/c/${ad}`);
  await tab.getByRole("button", { name: /^Edit the words/ }).first().click();
  await tab.getByLabel("Words of this voice").fill(MARKUP);
  await tab.getByRole("button", { name: "Save as a new version" }).click();
  await settle(tab);
  await assertHarmless(tab, "ad");
});

test("a hostile page in the preview opens nothing, sends nothing and covers nothing", async () => {
  const { thread_id: page } = await offline.send("POST", "/threads", { metadata: { graph_id: "page_builder" } });
  await offline.send("POST", `/threads/${page}/runs/wait`, { assistant_id: "page_builder", input: { messages: [{ role: "user", content: EXAMPLES.page_builder }] } });
  const { versionId, page: { root } } = await offline.send("GET", `/api/pages/${page}`);
  const ids = [];
  const walk = (one) => { if (one.content !== undefined) ids.push(one.id); one.children?.forEach(walk); };
  walk(root);
  let version = versionId;
  const hostile = `${MARKUP}</style></title><meta http-equiv="refresh" content="0;url=https://elsewhere.example/"><form action="https://elsewhere.example/"><button>x</button></form><base href="https://elsewhere.example/">`;
  for (const id of ids.slice(0, 4)) version = (await offline.send("PATCH", `/api/pages/${page}/elements/${id}`, { content: hostile, version })).id;
  const tab = await open(offline, `/c/${page}`);
  await settle(tab);
  const address = tab.url();
  const frame = tab.frames().find((one) => one.url().includes("/export"));
  const inside = frame.url();
  assert.equal(await frame.evaluate(() => window.broken).catch(() => undefined), undefined);
  for (const one of await tab.frameLocator("iframe").locator("a, button, input, [id]").all()) {
    await one.click({ timeout: 1_000, force: true, noWaitAfter: true }).catch(() => undefined);
  }
  await settle(tab);
  assert.equal(frame.url(), inside);
  assert.equal(new URL(tab.url()).pathname, new URL(address).pathname);
  assert.equal(await tab.evaluate(() => window.broken), undefined);
  const reply = await fetch(inside);
  assert.match(reply.headers.get("content-security-policy"), /sandbox allow-same-origin; frame-ancestors 'self'$/);
  const covered = await tab.evaluate(() => {
    const box = document.querySelector(".page-box").getBoundingClientRect();
    return document.elementFromPoint(box.left + 10, box.top - 10)?.tagName;
  });
  assert.notEqual(covered, "IFRAME");
});
