// Every view: axe in both themes, nothing wider than a phone, pictures if they are wanted, and the keyboard alone.
import assert from "node:assert/strict";
import { join } from "node:path";
import { EXAMPLES, faultsOf, guarded, offline, open, pictures, scripted, settle, test, until } from "./harness.mjs";

const THEMES = ["light", "dark"];
const PHONE = { width: 390, height: 844 };
const WIDE = { width: 1280, height: 860 };
let threads;

/** One thread of each workflow, with more than one version, and questions that wait. */
async function makeThreads() {
  if (threads) return threads;
  const run = async (workflow, text, known) => {
    const thread = known ?? (await offline.send("POST", "/threads", { metadata: { graph_id: workflow } })).thread_id;
    await offline.send("POST", `/threads/${thread}/runs/wait`, { assistant_id: workflow, input: { messages: [{ role: "user", content: text }] } });
    return thread;
  };
  const made = {};
  for (const [workflow, text] of Object.entries(EXAMPLES)) made[workflow] = await run(workflow, text);
  const [first] = (await offline.send("GET", `/threads/${made.fact_narration}/state`)).interrupts;
  const facts = (first.value.facts ?? first.value.choices).slice(0, 2).map((one) => one.id ?? one);
  await offline.send("POST", `/threads/${made.fact_narration}/runs/wait`, { assistant_id: "fact_narration", command: { resume: { facts } } });
  await run("ad_creation", "make the music more upbeat", made.ad_creation);
  await run("scene_edit", "make all scenes faster", made.scene_edit);
  made.waiting = await run("page_builder", "make a landing page for Nordlys, a bakery in Oslo");
  await run("page_builder", "delete the features section", made.waiting);
  const { thread_id: order } = await offline.send("POST", "/threads", { metadata: { graph_id: "ordering" } });
  await offline.send("POST", `/threads/${order}/runs/wait`, { assistant_id: "ordering", input: { item: "loaves" } });
  threads = { ...made, order };
  return threads;
}

/** Faults of what a tab shows, by theme; and whether a phone shows it whole. */
async function check(tab, name) {
  const faults = [];
  for (const colorScheme of THEMES) {
    await tab.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    faults.push(...(await faultsOf(tab)).map((one) => `${name}, ${colorScheme}: ${one}`));
    if (pictures) await tab.screenshot({ path: join(pictures, `${name}-${colorScheme}.png`) });
  }
  await tab.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await tab.setViewportSize(PHONE);
  const width = await until(() => tab.evaluate(() => document.documentElement.scrollWidth), "the width");
  if (width > PHONE.width) faults.push(`${name}: ${width} pixels wide in a window of ${PHONE.width}`);
  // A workspace scrolls in its parts, and the window around them does not.
  const scrolls = () => tab.evaluate(() => document.querySelector(".workspace") && document.documentElement.scrollHeight - innerHeight);
  if ((await scrolls()) > 0) faults.push(`${name}: the window scrolls around a part that scrolls`);
  if (pictures) await tab.screenshot({ path: join(pictures, `${name}-390.png`) });
  await tab.setViewportSize(WIDE);
  if ((await scrolls()) > 0) faults.push(`${name}: the window scrolls around a part that scrolls, wide`);
  return faults;
}

/** Check views by name: a path, and what is done there before it is looked at. */
async function checkAll(views, server = offline) {
  const tab = await open(server, "/settings");
  const faults = [];
  for (const [name, path, act] of views) {
    await tab.goto(server.url + path);
    await settle(tab);
    await act?.(tab);
    faults.push(...(await check(tab, name)));
  }
  assert.deepEqual(faults, []);
}

test("an empty page teaches what to do, in both themes and on a phone", async () => {
  const tab = await open(scripted, "/");
  await settle(tab);
  await tab.getByText("Nothing waits for you").waitFor();
  assert.deepEqual(await check(tab, "home-empty"), []);
});

test("axe finds nothing serious in Home and the workspaces, in both themes and on a phone", async () => {
  const ids = await makeThreads();
  await checkAll([
    ["home", "/"],
    ["ad", `/c/${ids.ad_creation}`],
    ["ad-versions", `/c/${ids.ad_creation}?tab=versions&stream=music`],
    ["lesson-versions", `/c/${ids.fact_narration}?tab=versions&stream=narration`],
    ["page-versions", `/c/${ids.page_builder}?tab=versions`],
    ["video-versions", `/c/${ids.scene_edit}?tab=versions&stream=scene-1`],
    ["lesson", `/c/${ids.fact_narration}`],
    ["page", `/c/${ids.page_builder}`, (tab) => tab.getByLabel("Select an element").selectOption("heading-1")],
    ["question", `/c/${ids.waiting}`],
    ["video", `/c/${ids.scene_edit}`],
    ["answer", `/c/${ids.campaign_search}`],
    ["own-graph", `/c/${ids.order}`],
  ]);
});

test("axe finds nothing serious in lists, settings, dialogs and the inspector, in both themes and on a phone", async () => {
  const ids = await makeThreads();
  const inspect = `/inspect/${ids.ad_creation}`;
  await checkAll([
    ["artefacts", "/artefacts"],
    ["artefacts-questions", "/artefacts?kind=campaigns"],
    ["delete", "/artefacts", (tab) => tab.getByRole("button", { name: /^Delete/ }).first().click()],
    ["campaigns", "/campaigns"],
    ["import", "/campaigns", (tab) => tab.getByRole("button", { name: "Import" }).click()],
    ["settings", "/settings"],
    ["shortcuts", "/settings", (tab) => tab.keyboard.press("?")],
    ["inspect", inspect],
    ["inspect-state", `${inspect}?tab=state`],
    ["inspect-model", `${inspect}?tab=model`],
    ["inspect-events", `${inspect}?tab=events`],
    ["fork", inspect, (tab) => tab.getByRole("button", { name: "Continue from here" }).click()],
  ]);
  await checkAll([["sign-in", "/"]], guarded);
});

test("axe finds nothing serious in a plan that runs, with a failed step, in both themes and on a phone", async () => {
  const scene = (i) => ({ name: `Scene ${i}`, durationInFrames: 60, background: { color: "#111111" }, elements: [{ id: "title", kind: "text", text: String(i), animations: [{ kind: "fade" }] }], palette: ["#111111", "#ffffff"] });
  await scripted.send("POST", "/api/projects", { id: "looked-at", scenes: [1, 2, 3, 4, 5, 6].map(scene) });
  const { conversationId } = await scripted.send("GET", "/api/artefacts/video/looked-at");
  Object.assign(scripted.model, { held: "change", refused: "change 1" });
  const tab = await open(scripted, `/c/${conversationId}`);
  await tab.getByLabel("Message", { exact: true }).fill("edit 6 scenes");
  await tab.keyboard.press("Enter");
  await tab.locator(".step-error").waitFor();
  await tab.getByRole("button", { name: /^Do “.*scene 6/ }).first().waitFor();
  assert.deepEqual(await check(tab, "plan-running"), []);
  Object.assign(scripted.model, { held: "", refused: "" });
  await tab.getByRole("button", { name: "Undo the plan" }).waitFor();
  assert.deepEqual(await check(tab, "plan-failed"), []);
});

/** Press Tab until the focus is on something of this name. */
async function reach(tab, name) {
  for (let presses = 0; presses < 250; presses += 1) {
    await tab.keyboard.press("Tab");
    const focused = await tab.evaluate(() => {
      const one = document.activeElement;
      return one.getAttribute("aria-label") ?? one.labels?.[0]?.innerText ?? one.innerText ?? "";
    });
    if (name.test(focused.trim())) return;
  }
  throw new Error(`Tab does not reach ${name}`);
}

test("the keyboard alone starts, answers, looks at versions, and forks", async () => {
  const { waiting } = await makeThreads();
  const tab = await open(offline, "/");
  await tab.locator(".start-card").first().waitFor();
  await tab.keyboard.press("n");
  await tab.keyboard.type(EXAMPLES.ad_creation);
  await tab.keyboard.press("Control+Enter");
  await tab.waitForURL(/\/c\//);
  await tab.locator(".turn.receipt").waitFor();
  await tab.keyboard.press("m");
  await tab.keyboard.type("make the music more upbeat");
  await tab.keyboard.press("Enter");
  await tab.locator(".turn.receipt").nth(1).waitFor();
  await tab.keyboard.press("Escape");
  await reach(tab, /^v2$/);
  await tab.keyboard.press("Enter");
  await tab.locator("ins").first().waitFor();
  await tab.goto(`${offline.url}/c/${waiting}`);
  const question = tab.getByRole("region", { name: "Question" });
  await question.waitFor();
  await tab.keyboard.press("r");
  await tab.keyboard.type("not now");
  await reach(tab, /^Reject$/);
  await tab.keyboard.press("Enter");
  await question.waitFor({ state: "detached" });
  await until(async () => (await offline.send("GET", `/threads/${waiting}`)).status === "idle", "the end of the run");
  await tab.goto(`${offline.url}/inspect/${waiting}`);
  await settle(tab);
  await reach(tab, /^State$/);
  await tab.keyboard.press("Enter");
  await reach(tab, /^Continue from here$/);
  await tab.keyboard.press("Enter");
  await tab.getByRole("dialog").waitFor();
  await tab.keyboard.press("Escape");
  await tab.getByRole("dialog").waitFor({ state: "detached" });
});

test("the keyboard alone moves in lists, sorts tables, opens dialogs, and signs in and out", async () => {
  await makeThreads();
  const tab = await open(offline, "/");
  await settle(tab);
  await tab.keyboard.press("?");
  await tab.getByRole("dialog", { name: "Shortcuts" }).waitFor();
  await tab.keyboard.press("Escape");
  await tab.keyboard.press("/");
  await tab.waitForFunction(() => document.activeElement.type === "search");
  await tab.keyboard.press("Escape");
  await tab.keyboard.press("j");
  assert.ok(await tab.evaluate(() => document.activeElement.closest("[data-row]")));
  for (const [link, control] of [[/^Campaigns$/, /^Import$/], [/^Artefacts$/, /^Delete/]]) {
    await reach(tab, link);
    await tab.keyboard.press("Enter");
    await settle(tab);
    await reach(tab, control);
    await tab.keyboard.press("Enter");
    await tab.getByRole("dialog").waitFor();
    await tab.keyboard.press("Escape");
    await tab.getByRole("dialog").waitFor({ state: "detached" });
  }
  await reach(tab, /^Settings$/);
  await tab.keyboard.press("Enter");
  await settle(tab);
  await reach(tab, /^Tool$/);
  await tab.keyboard.press("Enter");
  await tab.locator("th[aria-sort]").waitFor();
  const own = await open(guarded, "/");
  await reach(own, /^Key$/);
  await own.keyboard.type(guarded.createKey("cy", "write"));
  await own.keyboard.press("Enter");
  await own.getByRole("heading", { name: "Start something" }).waitFor();
  await reach(own, /^Sign out/);
  await own.keyboard.press("Enter");
  await own.getByLabel("Key").waitFor();
});
