// Journeys through the page of a running server with the offline model:
//   CONSOLE_URL=http://127.0.0.1:2024 CHROMIUM=/usr/bin/chromium npm run test:page
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const url = process.env.CONSOLE_URL;
assert.ok(url, "CONSOLE_URL is the address of a running server");
const ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const PATIENCE_MS = 30_000;
let browser;
let problems = [];

before(async () => { browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell", args: ARGS }); });
after(() => browser?.close());

async function open(path, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 860 }, ...options });
  page.setDefaultTimeout(PATIENCE_MS);
  problems = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => { if (message.type() === "error") problems.push(message.text()); });
  await page.goto(url + path);
  return page;
}

async function start(page, workflow, text) {
  await page.getByLabel("Workflow").selectOption(workflow);
  await page.getByLabel("What should be made?").fill(text);
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.waitForURL(/\/c\//);
}

const say = async (page, text) => {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
};
const answered = (page, text) => page.locator(".turn.model", { hasText: text }).last().waitFor();

test("an ad is made from Home, changed, and its versions are compared", async () => {
  const page = await open("/");
  await start(page, "ad_creation", "20 seconds for Harbour Bikes, e-bikes by the hour in Porto. First hour free until 30 June.");
  await answered(page, "Ready to review: voices v1");
  await say(page, "make the music more upbeat");
  await page.getByRole("link", { name: "music v2" }).click();
  await page.getByRole("button", { name: "What changed" }).click();
  await page.locator("ins", { hasText: "more upbeat" }).waitFor();
  await page.getByRole("button", { name: "Activate" }).click();
  await page.getByText("v2 is active").waitFor();
  await page.reload();
  await page.locator(".turn.person").nth(1).waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("an ad is heard, a line shows where, and one voice is heard alone", async () => {
  const page = await open("/");
  await start(page, "ad_creation", "20 seconds for Harbour Bikes, e-bikes by the hour in Porto. First hour free until 30 June.");
  await answered(page, "Ready to review: voices v1");
  await page.getByRole("button", { name: "Listen" }).click();
  await page.locator(".ad-player audio").waitFor();
  await page.locator(".playhead").waitFor({ state: "attached" });
  await page.getByText("is not available here; preview voice 1 speaks").first().waitFor();
  await page.getByText("Rules of Spotify met").waitFor();
  await page.getByLabel("Hear").selectOption("track-0");
  await page.locator('.ad-player audio[src*="track-0"]').waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("facts are chosen on Home by checkboxes, and the choice is recorded", async () => {
  const page = await open("/");
  await start(page, "fact_narration", "My student is 10. Plants make their own food. Leaves take in carbon dioxide through tiny holes called stomata. Roots take up water from the soil.");
  await page.getByText("Needs you").first().waitFor();
  await page.getByRole("link", { name: /^Home/ }).click();
  const question = page.locator(".question", { hasText: "3 facts about Plants" });
  await question.waitFor();
  if (await question.getByRole("button", { name: "Answer" }).isVisible()) await question.getByRole("button", { name: "Answer" }).click();
  await question.getByLabel(/Stomata/).uncheck();
  await question.getByRole("button", { name: "Use 2 facts" }).click();
  await question.waitFor({ state: "detached" });
  await page.getByText("Answered lately").click();
  await page.getByText("chose 2").first().waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("a plan is shown first, edited and approved in part, and one step is undone", async () => {
  const page = await open("/");
  await start(page, "scene_edit", "make a video about a bakery");
  await answered(page, "is new");
  await page.getByLabel("Show me the plan first").check();
  await say(page, "make all scenes faster");
  const question = page.getByRole("region", { name: "Question" });
  await question.waitFor();
  assert.match(await page.title(), /^\(\d+\) /);
  await question.getByRole("button", { name: "Edit" }).first().click();
  await question.getByLabel(/Prompt/).fill("slower");
  await question.getByRole("button", { name: "Keep this edit" }).click();
  await question.getByRole("checkbox").nth(2).uncheck();
  await question.getByRole("button", { name: "Approve 3 steps" }).click();
  await answered(page, "skipped");
  const plan = page.getByRole("group", { name: "Plan of 4 steps" }).last();
  await plan.getByText("Editing scene 2").hover();
  await plan.getByRole("button", { name: /Undo “Editing scene 2/ }).click();
  await page.getByText("The step is undone.").waitFor();
  assert.deepEqual(problems, []);
  await page.close();
});

test("a request is edited and sent again from the point before it", async () => {
  const page = await open("/");
  await start(page, "ad_creation", "20 seconds for Harbour Bikes, e-bikes by the hour in Porto.");
  await answered(page, "Ready to review");
  await page.locator(".turn.person").first().hover();
  await page.getByRole("button", { name: "Edit and send again" }).click();
  await page.getByLabel("Your request").fill("30 seconds for Miel, a bakery in Lyon");
  await page.getByRole("button", { name: "Send again" }).click();
  await answered(page, "voices v2");
  assert.equal(await page.locator(".turn.person").count(), 1);
  assert.match(await page.locator(".turn.person").innerText(), /Miel/);
  await page.close();
});

test("words of people and models are never HTML", async () => {
  const page = await open("/");
  const attack = "<img src=x onerror=\"window.broken=1\"> **bold** <script>window.broken=1</script>";
  await start(page, "campaign_search", attack);
  await page.locator(".turn.model").first().waitFor();
  assert.equal(await page.locator(".turn.person .bubble").innerText(), attack);
  assert.equal(await page.locator(".conversation img, .conversation script").count(), 0);
  assert.equal(await page.evaluate(() => window.broken), undefined);
  await page.close();
});

test("the keyboard alone starts, moves and answers", async () => {
  const page = await open("/");
  await page.locator(".start-card").first().waitFor();
  await page.keyboard.press("n");
  await page.keyboard.type("delete the features section");
  await page.getByLabel("Workflow").selectOption("page_builder");
  await page.getByLabel("What should be made?").press("Control+Enter");
  await page.waitForURL(/\/c\//);
  const question = page.getByRole("region", { name: "Question" });
  await question.waitFor();
  await page.locator("main").focus();
  await page.keyboard.press("a");
  await answered(page, "Features");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Shortcuts" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement?.getAttribute("type") === "search");
  await page.close();
});

test("nothing is wider than a window of 360 pixels", async () => {
  for (const path of ["/", "/artefacts", "/campaigns", "/settings"]) {
    const page = await open(path, { viewport: { width: 360, height: 640 } });
    await page.locator("main h1").first().waitFor({ state: "attached" });
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360, path);
    await page.close();
  }
});
