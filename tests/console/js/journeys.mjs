// Journeys through the page: from an empty state to a result, with questions, plans, versions, forks and lost connections.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { BufferSource, Input, WEBM } from "mediabunny";
import { EXAMPLES, faultsOf, folder, PATIENCE_MS, guarded, offline, picture, open, scripted, Server, settle, test, until } from "./harness.mjs";
import { TcpProxy } from "./proxy.mjs";

async function start(tab, workflow, text) {
  await tab.getByLabel("Workflow").selectOption(workflow);
  await tab.getByLabel("What should be made?").fill(text);
  await tab.getByRole("button", { name: "Start", exact: true }).click();
  await tab.waitForURL(/\/c\//);
}

async function say(tab, text) {
  await tab.getByLabel("Message", { exact: true }).fill(text);
  await tab.keyboard.press("Enter");
}

const answered = (tab, text) => tab.locator(".turn.model", { hasText: text }).last().waitFor();
const changed = (tab, text) => tab.locator(".turn.receipt", { hasText: text }).last().waitFor();
const threadOf = (tab) => new URL(tab.url()).pathname.split("/").at(-1);

test("an ad is made from Home, changed, and a version of it is compared and restored", async () => {
  const tab = await open(offline, "/");
  await start(tab, "ad_creation", EXAMPLES.ad_creation);
  await answered(tab, "Ready to review: voices v1");
  await changed(tab, "Changed:");
  await say(tab, "make the music more upbeat");
  await tab.locator(".turn.receipt").getByRole("link", { name: "v2" }).click();
  await tab.locator("ins", { hasText: "more upbeat" }).waitFor();
  await tab.getByRole("button", { name: "Activate" }).click();
  await tab.getByText("v2 is active").waitFor();
  await tab.locator(".chip", { hasText: "v1" }).click();
  await tab.getByRole("button", { name: "Restore" }).click();
  await tab.getByText("v1 is restored as a new version").waitFor();
  await tab.locator(".chip", { hasText: "v3" }).waitFor();
  await tab.getByRole("button", { name: "Ad", exact: true }).click();
  await tab.locator(".part-head", { hasText: "v2 is active" }).waitFor();
  await tab.reload();
  await tab.locator(".turn.person").nth(1).waitFor();
  await tab.locator(".turn.model", { hasText: "Ready to review: voices v1" }).getByRole("link", { name: "voices v1" }).waitFor();
});

test("a lesson's facts are chosen on Home, its words come in, and the choice is recorded", async () => {
  const tab = await open(offline, "/");
  await start(tab, "fact_narration", EXAMPLES.fact_narration);
  await tab.getByRole("region", { name: "Question" }).waitFor();
  const thread = threadOf(tab);
  await tab.getByRole("link", { name: /^Home/ }).click();
  const question = tab.locator(".question", { hasText: "3 facts about Plants" }).first();
  await question.waitFor();
  const fold = question.getByRole("button", { name: "Answer" });
  if (await fold.isVisible()) await fold.click();
  await question.getByLabel(/Stomata/).uncheck();
  const [request] = await Promise.all([
    tab.waitForResponse((reply) => reply.url().endsWith("/answer")),
    question.getByRole("button", { name: "Use 2 facts" }).click(),
  ]);
  const { run } = await request.json();
  const words = await (await fetch(`${offline.url}/threads/${thread}/runs/${run}/stream`, { headers: { "Last-Event-ID": "-1" } })).text();
  assert.match(words, /event: messages/);
  assert.match(words, /event: custom/);
  await tab.getByText("Answered lately").click();
  await tab.getByText("chose 2").first().waitFor();
  await tab.goto(`${offline.url}/c/${thread}`);
  await tab.locator(".segment").first().waitFor();
  await changed(tab, "Changed:");
});

/** A PDF of one page with these lines. */
function pdf(lines) {
  const content = `BT /F1 12 Tf 16 TL 50 750 Td ${lines.map((one) => `(${one}) Tj T*`).join(" ")} ET`;
  const objects = [
    "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
    "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
    `<</Length ${content.length}>>stream\n${content}\nendstream`, "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
  ];
  let file = "%PDF-1.4\n";
  const places = objects.map((one, i) => { const place = file.length; file += `${i + 1} 0 obj\n${one}\nendobj\n`; return `${String(place).padStart(10, "0")} 00000 n \n`; });
  return Buffer.from(`${file}xref\n0 6\n0000000000 65535 f \n${places.join("")}trailer<</Size 6/Root 1 0 R>>\nstartxref\n${file.length}\n%%EOF\n`);
}

test("a lesson begins with a PDF that is given on Home", async () => {
  const tab = await open(offline, "/");
  await tab.getByLabel("Workflow").selectOption("fact_narration");
  const buffer = pdf(["Plants make their own food from light, water and air.", "Stomata are small openings in the leaves of plants.", "Chlorophyll gives the leaves their green colour."]);
  await tab.getByLabel("Material, a PDF or a text").setInputFiles({ name: "plants.pdf", mimeType: "application/pdf", buffer });
  await tab.getByLabel("What should be made?").fill("My student is 9 and loves football");
  await tab.getByRole("button", { name: "Start", exact: true }).click();
  await tab.waitForURL(/\/c\//);
  const question = tab.getByRole("region", { name: "Question" });
  await question.getByText(/Stomata/).first().waitFor();
  assert.match(await tab.locator(".turn.person").innerText(), /^Request\s+My student is 9 and loves football\s+File\s+plants\.pdf$/);
  await picture(tab, "lesson-of-a-file");
});

test("a lesson's facts are chosen again, and an edit's error goes when the narration changes", async () => {
  const { sessionId } = await offline.send("POST", "/api/agent-create/tools", { messages: [{ role: "user", content: EXAMPLES.fact_narration }] });
  const choose = (...facts) => offline.send("POST", `/api/agent-create/tools?sessionId=${sessionId}`, { selectedFacts: facts, messages: [] });
  await choose(1);
  const tab = await open(offline, `/c/${sessionId}`);
  await tab.getByRole("button", { name: "Choose again" }).click();
  const question = tab.getByRole("region", { name: "Question" });
  await question.waitFor();
  const ticked = question.getByRole("checkbox", { checked: true });
  assert.equal(await ticked.count(), 1, "only what is chosen is ticked");
  await choose(1, 2);
  await tab.reload();
  await tab.getByText(/^2 of \d chosen$/).waitFor();
  await tab.getByRole("button", { name: "Edit hook" }).click();
  await tab.getByLabel("Words of Hook").fill("");
  await tab.getByRole("button", { name: "Save as a new version" }).click();
  assert.ok(await tab.getByLabel("Words of Hook").evaluate((box) => box.matches(":invalid") && box === document.activeElement), "no words are no version");
  await tab.getByLabel("Words of Hook").fill("word ".repeat(40));
  await tab.getByRole("button", { name: "Save as a new version" }).click();
  const error = tab.getByText(/10 s allow 22/);
  await error.waitFor();
  await tab.locator("#composer").fill("Make it for a 6-year-old");
  await tab.locator("#composer").press("Enter");
  await error.waitFor({ state: "detached" });
  assert.match(await tab.getByLabel("Words of Hook").inputValue(), /^word word/, "the typed words stay");
});

test("a brief is shown as it was entered, under the title of the ad, which a person may give", async () => {
  const brief = { client: "Harbour Bikes", product: "e-bikes by the hour", duration: 20 };
  await offline.send("POST", "/api/ai/generate", { adId: "harbour-form", provider: "offline", brief });
  const tab = await open(offline, "/c/harbour-form");
  await tab.getByRole("heading", { level: 1, name: "Harbour Bikes: e-bikes by the hour" }).waitFor();
  const entered = await tab.locator(".turn.person").first().innerText();
  assert.match(entered, /^Client\s+Harbour Bikes\s+Product\s+e-bikes by the hour\s+Duration\s+20$/);
  await picture(tab, "ad-of-a-form");
  await tab.getByRole("button", { name: "Change the title" }).click();
  await tab.getByLabel("Title", { exact: true }).fill("Summer on wheels");
  await tab.keyboard.press("Enter");
  await tab.getByRole("heading", { level: 1, name: "Summer on wheels" }).waitFor();
  await tab.goto(`${offline.url}/artefacts?kind=ad`);
  await tab.getByRole("link", { name: "Summer on wheels", exact: true }).waitFor();
});

test("a page is made, and an element of it is marked and changed", async () => {
  const tab = await open(offline, "/");
  await start(tab, "page_builder", EXAMPLES.page_builder);
  await changed(tab, "Changed:");
  await settle(tab);
  await tab.getByLabel("Select an element").selectOption("heading-1");
  await tab.getByLabel("Text of heading-1").fill("Bread at four");
  await tab.getByRole("button", { name: "Save the text" }).click();
  await tab.getByText(/Saved as v\d/).waitFor();
  await tab.frameLocator("iframe").getByRole("heading", { name: "Bread at four" }).waitFor();
});

test("the check of a page leads to the field that it asks for, and the field is saved as a version", async () => {
  for (const message of [EXAMPLES.page_builder, "add a contact form"]) await offline.send("POST", "/api/pages/checked/chat", { message });
  const tab = await open(offline, "/c/checked");
  await tab.getByText(/of a page that is published/).click();
  const rule = tab.getByRole("row", { name: /^description/ });
  assert.doesNotMatch(await rule.innerText(), /PATCH/);
  await rule.getByRole("button", { name: "Edit page" }).click();
  const field = tab.getByLabel("Description of page");
  await until(() => field.evaluate((box) => box === document.activeElement), "the field has the focus");
  await picture(tab, "page-description");
  await field.fill("Bread from our oven at four each day, in the old town of Lyon, for all who rise early.");
  await tab.getByRole("button", { name: "Save the description" }).click();
  await tab.getByText(/Saved as v\d/).waitFor();
  await tab.getByRole("row", { name: /^description 86 characters pass/ }).waitFor();
  await tab.getByRole("row", { name: /^forms reach somebody/ }).getByRole("button", { name: "Edit form-1" }).click();
  const address = tab.getByLabel("Address of form-1");
  await until(() => address.evaluate((box) => box === document.activeElement), "the form's address has the focus");
  await address.fill("https://forms.example/miel");
  await tab.getByRole("button", { name: "Save the address" }).click();
  await tab.getByRole("row", { name: /^forms reach somebody ok pass/ }).waitFor();
  assert.deepEqual(await faultsOf(tab), []);
});

test("a phone shows the preview of a page, its rules, the composer and a lesson in the width that it has", async () => {
  await offline.send("POST", "/api/pages/small/chat", { message: EXAMPLES.page_builder });
  const tab = await open(offline, "/c/small", { viewport: { width: 390, height: 844 } });
  await tab.locator(".turn.receipt").first().waitFor();
  await tab.getByRole("button", { name: "What is made" }).click();
  const tops = await tab.locator(".fold summary").first().evaluate((one) => [one, one.firstChild].map((part) => part.getBoundingClientRect().top));
  assert.ok(tops[1] - tops[0] < 6, `the rules begin ${tops[1] - tops[0]} pixels below their triangle`);
  await until(async () => (await tab.locator(".page-box").boundingBox()).height > 200, "the preview has a height");
  await tab.reload();
  await tab.getByLabel("Select an element").waitFor();
  await tab.getByRole("button", { name: "Conversation" }).click();
  assert.ok((await tab.getByLabel("Message", { exact: true }).boundingBox()).height > 30);

  const { sessionId } = await offline.send("POST", "/api/agent-create/tools", { messages: [{ role: "user", content: EXAMPLES.fact_narration }] });
  await offline.send("POST", `/api/agent-create/tools?sessionId=${sessionId}`, { selectedFacts: [1, 2], messages: [] });
  await tab.goto(`${offline.url}/c/${sessionId}?pane=artefact`);
  await tab.getByText(/^reading level/).waitFor();
  const [wide, shown] = await tab.locator(".pane-body").evaluate((one) => [one.scrollWidth, one.clientWidth]);
  assert.ok(wide <= shown, `the lesson is ${wide} pixels wide in ${shown}`);
  const length = tab.locator(".part-head").getByText(/by estimate/);
  assert.ok(await length.evaluate((one) => one.scrollWidth <= one.clientWidth), "the length of the narration is not cut off");
});

test("a request is edited and sent again from the point before it, which leaves the later turn behind", async () => {
  const tab = await open(offline, "/");
  await start(tab, "ad_creation", EXAMPLES.ad_creation);
  await changed(tab, "Changed:");
  await say(tab, "make the music more upbeat");
  await changed(tab, "music v2");
  await tab.locator(".turn.person").first().hover();
  await tab.getByRole("button", { name: "Edit and send again" }).first().click();
  await tab.getByLabel("Your request").fill("30 seconds for Miel, a bakery in Lyon");
  await tab.getByRole("button", { name: "Send again", exact: true }).click();
  await tab.locator(".turn.person", { hasText: "Miel" }).waitFor();
  await changed(tab, "voices v2");
  assert.equal(await tab.locator(".turn.person").count(), 1);
});

test("both wordings of a request stay in reach beside it, and the earlier one is gone on from", async () => {
  const tab = await open(offline, "/");
  await start(tab, "ad_creation", EXAMPLES.ad_creation);
  await changed(tab, "Changed:");
  await say(tab, "make the music more upbeat");
  await changed(tab, "music v2");
  await tab.locator(".turn.person").first().hover();
  await tab.getByRole("button", { name: "Edit and send again" }).first().click();
  await tab.getByLabel("Your request").fill("30 seconds for Miel, a bakery in Lyon");
  await tab.getByRole("button", { name: "Send again", exact: true }).click();
  await changed(tab, "voices v2");
  await tab.reload();
  const switcher = tab.getByRole("group", { name: "Wordings of this request" });
  await switcher.getByText("2 of 2").waitFor();
  await switcher.getByRole("button", { name: "The wording before" }).click();
  await tab.locator(".turn.person", { hasText: "more upbeat" }).waitFor();
  await switcher.getByText("1 of 2").waitFor();
  await tab.getByText("You are looking at an earlier branch").waitFor();
  await say(tab, "make the music calmer");
  await changed(tab, "music v4");
  assert.deepEqual((await tab.locator(".bubble").allInnerTexts()).slice(1), ["make the music more upbeat", "make the music calmer"]);
  await switcher.getByRole("button", { name: "The wording after" }).click();
  await tab.locator(".turn.person", { hasText: "Miel" }).waitFor();
  assert.equal(await tab.locator(".turn.person").count(), 1);
  await tab.getByRole("button", { name: "Show the newest" }).click();
  await tab.locator(".turn.person", { hasText: "calmer" }).waitFor();
});

test("a plan is shown first, edited and approved in part, and one step is undone", async () => {
  const tab = await open(offline, "/");
  await start(tab, "scene_edit", EXAMPLES.scene_edit);
  await answered(tab, "is new");
  await tab.getByLabel("Show me the plan first").check();
  await say(tab, "make all scenes faster");
  const question = tab.getByRole("region", { name: "Question" });
  await question.waitFor();
  assert.match(await tab.title(), /^\(\d+\) /);
  await question.getByRole("button", { name: "Edit" }).first().click();
  await question.getByLabel(/Prompt/).fill("slower");
  await question.getByRole("button", { name: "Keep this edit" }).click();
  await question.getByRole("checkbox").nth(2).uncheck();
  await question.getByRole("button", { name: "Approve 3 steps" }).click();
  await answered(tab, "left out");
  const plan = tab.getByRole("group", { name: "Plan of 4 steps" }).last();
  await plan.getByText("Editing scene 2").hover();
  await plan.getByRole("button", { name: /Undo “Editing scene 2/ }).click();
  await tab.getByText("The step is undone.").waitFor();
});

test("the plan of an ad is read, edited in several forms, and keeps what was typed when an edit is refused", async () => {
  const tab = await open(offline, "/");
  await start(tab, "ad_creation", EXAMPLES.ad_creation);
  await changed(tab, "Changed:");
  await tab.getByLabel("Show me the plan first").check();
  await say(tab, "make the ad feel more urgent");
  const question = tab.getByRole("region", { name: "Question" });
  await question.getByText(/^Ava Multilingual, female, American.*: “/).waitFor();
  const [voices, music] = [question.getByRole("listitem").filter({ hasText: "casting the voices" }), question.getByRole("listitem").filter({ hasText: "Describing the music" })];
  await voices.getByRole("button", { name: "Edit" }).click();
  await voices.getByLabel("Text", { exact: true }).first().fill("Harbour Bikes. Hurry.");
  await voices.getByLabel("Overlap").first().fill("99");
  assert.equal(await voices.getByLabel("Ad id").count(), 0, "the server knows the ad");
  await music.getByRole("button", { name: "Edit" }).click();
  await music.getByLabel("Prompt").fill("solo cello");
  await picture(tab, "ad-plan-edited");
  for (const form of [music, voices]) await form.getByRole("button", { name: "Keep this edit" }).click();
  await question.getByRole("button", { name: /^Approve \d steps$/ }).click();
  const problem = question.getByText(/cannot be done as edited. Tracks 1, overlap/);
  await problem.waitFor();
  assert.equal(await problem.count(), 1, "the problem is said once");
  await voices.getByText("Harbour Bikes. Hurry.").waitFor();
  await tab.getByRole("link", { name: /^Home/ }).click();
  await tab.goBack();
  await voices.getByRole("button", { name: "Edit" }).click();
  await voices.getByLabel("Overlap").first().fill("0");
  await voices.getByRole("button", { name: "Keep this edit" }).click();
  assert.deepEqual(await faultsOf(tab), []);
  await question.getByRole("button", { name: /^Approve \d steps$/ }).click();
  await tab.locator(".track", { hasText: "Harbour Bikes. Hurry." }).waitFor();
  await tab.locator(".part", { hasText: "solo cello" }).waitFor();
});

test("ticks of facts stay while others are looked for, and the form says that there are none", async () => {
  const { sessionId } = await offline.send("POST", "/api/agent-create/tools", { messages: [{ role: "user", content: EXAMPLES.fact_narration }] });
  const tab = await open(offline, `/c/${sessionId}`);
  const question = tab.getByRole("region", { name: "Question" });
  await question.getByLabel(/Stomata/).uncheck();
  await question.getByLabel(/Wishes/).fill("more about the roots");
  await question.getByRole("button", { name: "Find others" }).click();
  await question.getByText(/has no other facts/).waitFor();
  await question.getByRole("button", { name: "Use 2 facts" }).waitFor();
  assert.equal(await question.getByLabel(/Stomata/).isChecked(), false);
  assert.equal(await question.getByLabel(/Wishes/).inputValue(), "", "a wish that was sent is over");
  await tab.locator(".turn.person", { hasText: "more about the roots" }).waitFor();
});

/** A film's pictures at these seconds: the colour in its middle, as the browser decodes it. */
async function coloursOf(tab, file, seconds) {
  const content = (await readFile(file)).toString("base64");
  return tab.evaluate(async ({ content, seconds }) => {
    const bytes = Uint8Array.from(atob(content), (char) => char.charCodeAt(0));
    const video = Object.assign(document.createElement("video"), { src: URL.createObjectURL(new Blob([bytes], { type: "video/webm" })), muted: true });
    const event = (name) => new Promise((resolve, reject) => { video.addEventListener(name, resolve, { once: true }); video.addEventListener("error", () => reject(new Error("the film cannot be played")), { once: true }); });
    await event("loadeddata");
    const context = new OffscreenCanvas(video.videoWidth, video.videoHeight).getContext("2d");
    const colours = [];
    for (const second of seconds) {
      video.currentTime = second;
      await event("seeked");
      context.drawImage(video, 0, 0);
      colours.push([...context.getImageData(20, 20, 1, 1).data].slice(0, 3));
    }
    return colours;
  }, { content, seconds });
}

test("a video becomes a film file with each scene in its time", async () => {
  const text = (words) => ({ id: "title", kind: "text", text: words, animations: [{ kind: "slide-up", duration: 20 }] });
  const scenes = [["#c00000", 90], ["#00a000", 120], ["#0000d0", 90]].map(([color, durationInFrames], i) => ({ name: `Scene ${i}`, durationInFrames, background: { color }, elements: [text(`Number ${i}`)] }));
  const project = await offline.send("POST", "/api/projects", { id: "film", name: "Film", scenes });
  const tab = await open(offline, `/c/${project.threadId}`);
  const saved = tab.waitForEvent("download", { timeout: 4 * PATIENCE_MS });
  await tab.getByRole("button", { name: "WebM" }).click();
  const download = await saved;
  assert.equal(download.suggestedFilename(), "Film.webm");
  const file = await download.path();
  const input = new Input({ formats: [WEBM], source: new BufferSource(await readFile(file)) });
  const track = await input.getPrimaryVideoTrack();
  const { packetCount } = await track.computePacketStats();
  assert.deepEqual([packetCount, track.displayWidth, track.displayHeight], [300, 1280, 720]);
  assert.ok(Math.abs((await input.computeDuration()) - 10) < 0.05);
  const colours = await coloursOf(tab, file, [1.5, 5, 8.5]);
  assert.deepEqual(colours.map((one) => one.indexOf(Math.max(...one))), [0, 1, 2], JSON.stringify(colours));
});

/** The root mean square of a sound file between these seconds, as the browser decodes it. */
async function levelsOf(tab, file, spans) {
  const content = (await readFile(file)).toString("base64");
  return tab.evaluate(async ({ content, spans }) => {
    const bytes = Uint8Array.from(atob(content), (char) => char.charCodeAt(0));
    const sound = await new OfflineAudioContext(2, 1, 48_000).decodeAudioData(bytes.buffer);
    const samples = sound.getChannelData(0);
    return spans.map(([start, end]) => {
      const part = samples.slice(start * 48_000, end * 48_000);
      return Math.sqrt(part.reduce((sum, one) => sum + one * one, 0) / part.length);
    });
  }, { content, spans });
}

test("a film has the words of its scenes and the chosen music on a track of sound", async () => {
  const spoken = (description) => ({ durationInFrames: 30, audio: { description, spokenLanguage: "english" } });
  const scenes = [spoken("Plants make their own food."), { durationInFrames: 60 }];
  const project = await offline.send("POST", "/api/projects", { id: "heard", scenes });
  const tab = await open(offline, `/c/${project.threadId}`);
  await tab.getByLabel("Narration").waitFor();
  await tab.getByLabel("Music").selectOption("calm");
  const saved = tab.waitForEvent("download", { timeout: 4 * PATIENCE_MS });
  await tab.getByRole("button", { name: "WebM" }).click();
  const file = await (await saved).path();
  await tab.getByText("Preview voice: preview voice 1 speaks").waitFor();
  await tab.getByText("The music is the bed calm/").waitFor();
  const [subtitles] = await Promise.all([tab.waitForEvent("download"), tab.getByRole("link", { name: "Captions" }).click()]);
  assert.match(subtitles.suggestedFilename(), /\.srt$/);
  assert.match(await readFile(await subtitles.path(), "utf8"), /^1\n00:00:00,\d{3} --> 00:00:0[1-5],\d{3}\nPlants make their own food\.\n$/);
  const bytes = await readFile(file);
  const input = new Input({ formats: [WEBM], source: new BufferSource(bytes) });
  const [video, audio] = [await input.getPrimaryVideoTrack(), await input.getPrimaryAudioTrack()];
  assert.deepEqual([audio.codec, audio.numberOfChannels, audio.sampleRate], ["opus", 2, 48_000]);
  const shown = (await video.computePacketStats()).packetCount / 30;
  assert.ok(shown > 3.3 && shown < 6, `${shown} s: the first scene is held until its words are spoken`);
  assert.ok(Math.abs((await audio.computeDuration()) - shown) < 0.1);
  assert.ok(bytes.length > 40_000 && bytes.length < 4_000_000, `${bytes.length} bytes`);
  const [speech, music] = await levelsOf(tab, file, [[0.2, 1], [shown - 2, shown - 1]]);
  assert.ok(speech > 2 * music && music > 0.005, JSON.stringify({ speech, music }));
});

test("a browser that cannot encode sound makes the film without it, and the page says so", async () => {
  const scenes = [{ durationInFrames: 15 }];
  const project = await offline.send("POST", "/api/projects", { id: "mute", scenes });
  const tab = await open(offline, `/c/${project.threadId}`);
  await tab.evaluate(() => { delete window.AudioEncoder; });
  await tab.getByLabel("Music").selectOption("calm");
  const saved = tab.waitForEvent("download", { timeout: 4 * PATIENCE_MS });
  await tab.getByRole("button", { name: "WebM" }).click();
  const input = new Input({ formats: [WEBM], source: new BufferSource(await readFile(await (await saved).path())) });
  assert.equal(await input.getPrimaryAudioTrack(), null);
  await tab.getByText("this browser cannot encode Opus").waitFor();
});

test("two versions of an ad are compared by ear at equal loudness, and a switch keeps the place", async () => {
  const tab = await open(offline, "/");
  await start(tab, "ad_creation", EXAMPLES.ad_creation);
  await changed(tab, "Changed:");
  await say(tab, "make the music calmer");
  await changed(tab, "music v2");
  await tab.getByText("Compare by ear").click();
  await tab.getByLabel("Version A").selectOption("v1");
  await tab.getByRole("button", { name: "Compare", exact: true }).click();
  const seek = tab.getByLabel("Play head");
  await seek.waitFor({ timeout: 4 * PATIENCE_MS });
  const second = async () => Number(await seek.inputValue());
  await until(async () => (await second()) > 0.3, "it plays");
  await seek.fill("8");
  const heard = tab.getByRole("group", { name: "Version that is heard" });
  await heard.getByRole("button", { name: "B · v2" }).click();
  const place = await second();
  assert.ok(place >= 8 && place < 12, `${place} s`);
  await until(async () => (await second()) > place, "it plays on");
  assert.equal(await heard.getByRole("button", { name: "B · v2" }).getAttribute("aria-pressed"), "true");
  await tab.getByText(/A -16\.\d LUFS, B -16\.\d LUFS: both are played as loud/).waitFor();
  await tab.getByLabel("Pause", { exact: true }).click();
  assert.deepEqual(await faultsOf(tab), []);
  await picture(tab, "compare");
});

test("a name's pronunciation is set for an ad and everywhere, and each place is told", async () => {
  const brief = { clientDescription: EXAMPLES.ad_creation };
  const ad = await offline.send("POST", "/api/ai/generate", { adId: "names", brief, provider: "offline" });
  const tab = await open(offline, `/c/${ad.conversationId}`);
  await tab.getByText("Pronunciations").click();
  const add = async (name, words) => {
    await tab.getByLabel("Name as it is written").fill(name);
    await tab.getByLabel("How it is spoken").fill(words);
    await tab.getByRole("button", { name: "Add", exact: true }).click();
  };
  await add("Porto", "poor-too");
  await tab.getByText("Porto is spoken “poor-too” in this ad").waitFor();
  await tab.getByLabel("everywhere").check();
  await add("Miel", "mee-ell");
  await tab.getByText("Miel is spoken “mee-ell” everywhere").waitFor();
  assert.deepEqual(await offline.send("GET", "/api/ads/names/pronunciations"), { names: { Porto: "poor-too" }, ownerNames: { Miel: "mee-ell" } });
  await tab.getByRole("button", { name: "Speak Miel as it is written everywhere" }).click();
  await tab.getByText("Miel is spoken").waitFor({ state: "detached" });
  assert.deepEqual(await faultsOf(tab), []);
  await picture(tab, "names");
});

/** Save a file of "Take it with you"; its name. */
async function taken(tab, label) {
  const link = tab.getByRole("link", { name: label, exact: true });
  await link.waitFor();
  const [saved] = await Promise.all([tab.waitForEvent("download", { timeout: 4 * PATIENCE_MS }), link.click()]);
  return saved.suggestedFilename();
}

test("what is made is taken along as files, which are named by the title and rendered where nobody has listened", async () => {
  const brief = { clientDescription: EXAMPLES.ad_creation };
  const ad = await offline.send("POST", "/api/ai/generate", { adId: "away", brief, provider: "offline" });
  const tab = await open(offline, `/c/${ad.conversationId}`);
  assert.match(await taken(tab, "Sound"), /^(?!away).+\.mp3$/);
  await tab.getByLabel(/Address of the sound/).fill("https://cdn.example/away.mp3");
  await tab.getByText(/checks and sound, VAST/).waitFor();
  assert.match(await taken(tab, "Hand-off"), /^(?!away).+\.zip$/);
  await offline.send("POST", "/api/ads/away/voices/v1/activate");
  await offline.send("PATCH", "/api/ads/away/voices/tracks/track-0", { text: "Cycle along the river.", version: "v1" });
  await tab.reload();
  await tab.getByRole("button", { name: "Listen", exact: true }).click();
  await tab.getByText("Of the voices v2 is rendered; v1 is active.").waitFor({ timeout: 4 * PATIENCE_MS });
  assert.match(await taken(tab, "Hand-off of voices v2"), /\.zip$/);
  await tab.locator(".ad-player-part select", { hasText: "the active" }).selectOption({ label: "the active: voices v1" });
  await tab.getByRole("button", { name: "Listen", exact: true }).click();
  await tab.locator(".ad-player audio").waitFor({ timeout: 4 * PATIENCE_MS });
  assert.equal(await tab.getByText("is rendered;").count(), 0);
  assert.match(await taken(tab, "Hand-off of voices v1"), /\.zip$/);
  assert.deepEqual(await faultsOf(tab), []);
  await picture(tab, "take-ad");
  const { sessionId } = await offline.send("POST", "/api/agent-create/tools", { messages: [{ role: "user", content: EXAMPLES.fact_narration }] });
  await offline.send("POST", `/api/agent-create/tools?sessionId=${sessionId}`, { selectedFacts: [1, 2], messages: [] });
  await tab.goto(`${offline.url}/c/${sessionId}`);
  assert.equal(await taken(tab, "Sound"), "Plants.mp3");
  for (const [label, ending] of [["Slides", "html"], ["Quiz", "md"], ["Flashcards", "csv"], ["QTI package", "zip"]]) assert.match(await taken(tab, label), new RegExp(`\\.${ending}$`));
  await picture(tab, "take-lesson");
  const page = await offline.send("POST", "/api/pages", { adId: "away" });
  await tab.goto(`${offline.url}/c/${page.conversationId}`);
  await tab.getByText(/of a page that is published/).waitFor();
  assert.match(await taken(tab, "ZIP"), /\.zip$/);
  await offline.send("POST", `/api/pages/${page.pageId}/versions/v1/activate`);
  await offline.send("POST", `/api/pages/${page.pageId}/versions/start/restore`);
  await tab.reload();
  for (const one of ["v2, the newest one", "v1, the active one"]) await tab.getByText(new RegExp(`rules of a page that is published, ${one}`)).waitFor();
  assert.doesNotMatch(await taken(tab, "HTML of v2, the newest one"), / v2\.html$/);
  assert.match(await taken(tab, "ZIP of v1, the active one"), / v1\.zip$/);
  assert.deepEqual(await faultsOf(tab), []);
  await picture(tab, "take-page");
  const project = await offline.send("POST", "/api/projects", { id: "reel", starter: "app-promo" });
  await tab.goto(`${offline.url}/c/${project.threadId}`);
  for (const [label, name] of [["Timeline", "App promo.otio"], ["Preview", "App promo.html"], ["JSON", "App promo.json"]]) assert.equal(await taken(tab, label), name);
  await tab.getByRole("button", { name: "Undo", exact: true }).isDisabled().then(assert.ok);
  await picture(tab, "take-video");
});

test("an ad becomes a page by a button", async () => {
  const brief = { clientDescription: EXAMPLES.ad_creation };
  const ad = await offline.send("POST", "/api/ai/generate", { adId: "chain", brief, provider: "offline" });
  const tab = await open(offline, `/c/${ad.conversationId}`);
  await tab.getByRole("button", { name: "Make a page of this" }).click();
  await tab.waitForURL((url) => url.pathname.startsWith("/c/") && !url.pathname.endsWith(ad.conversationId));
  const [source] = (await offline.send("GET", `/api/artefacts/page/${(await offline.send("GET", "/api/pages")).pages[0].pageId}`)).sources;
  assert.deepEqual([source.kind, source.id], ["ad", "chain"]);
  await tab.getByText("This page was made from an ad", { exact: true }).waitFor();
  assert.equal(await tab.getByText("An empty conversation").count(), 0);
  await tab.getByRole("button", { name: "Made from an ad" }).click();
  await tab.waitForURL((url) => url.pathname.endsWith(ad.conversationId));
  await offline.send("POST", "/api/ads/chain/voices/v1/activate");
  await offline.send("PATCH", "/api/ads/chain/voices/tracks/track-0", { text: "Cycle along the river.", version: "v1" });
  await tab.reload();
  await tab.getByRole("button", { name: "Make a page of this" }).click();
  await tab.getByText("The page has the words of v2 of the script; v1 is active.").waitFor();
});

test("the steps of every turn are called the same live and after a reload", async () => {
  for (const [workflow, next] of [["scene_edit", "make all scenes faster"], ["ad_creation", "make the music more upbeat"]]) {
    const tab = await open(offline, "/");
    await start(tab, workflow, EXAMPLES[workflow]);
    await changed(tab, "Changed:");
    await say(tab, next);
    await tab.locator(".turn.receipt").nth(1).waitFor();
    await settle(tab);
    const names = () => tab.locator(".step-name").allInnerTexts();
    const live = await names();
    await tab.reload();
    await tab.locator(".turn.receipt").nth(1).waitFor();
    await settle(tab);
    assert.deepEqual(await names(), live);
  }
});

test("a step of an earlier plan leads to the version that it has made", async () => {
  const project = await offline.send("POST", "/api/projects", { id: "plans", scenes: [1, 2].map(scene) });
  const ended = async ({ executionId }) => until(async () => (await offline.send("GET", `/api/executions/${executionId}`)).status === "completed", "the plan has ended");
  await ended(await offline.send("POST", "/api/projects/plans/executions", { message: "make scene 1 faster", provider: "offline" }));
  await ended(await offline.send("PUT", "/api/projects/plans/order", { sceneIds: ["scene-2", "scene-1"] }));
  const tab = await open(offline, `/c/${project.threadId}`);
  await tab.getByRole("link", { name: "order of the scenes v2" }).waitFor();
  const [link] = await tab.locator(".plan").first().locator(".step a.tag").evaluateAll((all) => all.map((one) => [one.innerText, new URL(one.href).searchParams.get("stream")]));
  assert.deepEqual(link, ["v2", "scene-1"]);
});

test("a question about campaigns shows figures and proof, and is found again", async () => {
  const tab = await open(offline, "/");
  await start(tab, "campaign_search", EXAMPLES.campaign_search);
  await tab.getByText("sample library of invented campaigns").waitFor();
  await tab.locator(".bars").waitFor();
  await tab.getByPlaceholder("Ask another question").waitFor();
  const thread = threadOf(tab);
  await tab.getByRole("link", { name: "Artefacts" }).click();
  await tab.getByRole("button", { name: "Campaign questions" }).click();
  await tab.locator(`a.row-title[href="/c/${thread}"]`).waitFor();
  await tab.getByRole("link", { name: "Home" }).click();
  await tab.getByLabel("Search in recent work").fill("zebra crossing");
  await tab.getByText("titles, at what people wrote, and at what was made").waitFor();
  await tab.getByRole("link", { name: "Campaigns", exact: true }).click();
  await tab.getByLabel("Channel").fill("email");
  await tab.getByRole("button", { name: "Show", exact: true }).click();
  await tab.waitForURL(/channel=email/);
  await tab.locator(".campaigns > li").first().waitFor();
});

test("campaigns are imported from a file, and what was refused is listed", async () => {
  const tab = await open(offline, "/campaigns");
  await tab.getByText("sample library of invented campaigns").waitFor();
  await tab.getByRole("button", { name: "Import" }).click();
  const content = "company,channel,campaign_text,spend,date\nMiel,email,Bread at four,100,2026-03-01\n,email,Nobody's,1,2026-03-01\n";
  await tab.getByLabel("File").setInputFiles({ name: "ads.csv", mimeType: "text/csv", buffer: Buffer.from(content) });
  await tab.getByRole("dialog").getByRole("button", { name: "Import", exact: true }).click();
  await tab.getByText(/campaigns? imported/).waitFor();
  await tab.getByText("your own campaigns are searched from now on").waitFor();
  await tab.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
  await tab.getByRole("dialog").waitFor({ state: "detached" });
});

const scene = (i) => ({ name: `Scene ${i}`, durationInFrames: 60, background: { color: "#111111" }, elements: [{ id: "title", kind: "text", text: String(i), animations: [{ kind: "fade" }] }], palette: ["#111111", "#ffffff"] });

test("a step is edited, another skipped, and one put earlier by keyboard while the plan runs", async () => {
  await scripted.send("POST", "/api/projects", { id: "live", name: "The live film", scenes: [1, 2, 3, 4, 5, 6, 7, 8].map(scene) });
  scripted.model.held = "change";
  const { conversationId } = await scripted.send("GET", "/api/artefacts/video/live");
  const tab = await open(scripted, `/c/${conversationId ?? "live"}`);
  await tab.getByRole("heading", { name: "The live film", level: 1 }).waitFor();
  assert.ok(await tab.getByRole("button", { name: "Undo" }).isDisabled(), "nothing was done that can be undone");
  await say(tab, "edit 8 scenes");
  const plan = tab.getByRole("group", { name: /^Plan of [89] steps/ });
  await plan.getByRole("button", { name: "Insert a step" }).click();
  await tab.getByLabel("Step", { exact: true }).selectOption("trimScene");
  await tab.getByLabel("Scene", { exact: true }).selectOption({ label: "8 Scene 8" });
  await tab.getByLabel(/^Duration seconds/).fill("3");
  await tab.getByRole("button", { name: "Insert", exact: true }).click();
  await tab.getByRole("dialog").waitFor({ state: "detached" });
  await plan.getByRole("button", { name: /^Edit “.*scene 8/ }).first().click();
  assert.equal(await tab.getByRole("dialog").getByLabel(/^Scene id/).count(), 0, "a scene's id is shown and cannot be edited");
  await tab.getByRole("dialog").getByLabel(/Prompt/).fill("another wish");
  await tab.getByRole("button", { name: "Change the step" }).click();
  await tab.getByRole("dialog").waitFor({ state: "detached" });
  await plan.getByRole("button", { name: /^Skip “.*scene 7/ }).click();
  await plan.locator(".step.skipped").waitFor();
  const earlier = plan.getByRole("button", { name: /^Do “.*scene 6.*” earlier/ });
  await earlier.focus();
  await tab.keyboard.press("Enter");
  const titles = () => plan.locator(".step-name").allInnerTexts();
  await until(async () => /scene 6/.test((await titles())[4]), "the step stands before another");
  await tab.waitForFunction(() => /scene 6.*earlier/.test(document.activeElement.getAttribute("aria-label") ?? ""));
  await plan.getByRole("button", { name: "Pause" }).click();
  scripted.model.held = "";
  await tab.getByRole("region", { name: "Question" }).waitFor();
  await say(tab, "something else");
  await tab.getByRole("dialog").getByText(/This ends the plan: \d steps left/).waitFor();
  await tab.getByRole("button", { name: "Keep it" }).click();
  const sizes = () => tab.locator(".conversation").evaluate(({ scrollHeight, clientHeight, scrollTop }) => ({ hidden: scrollHeight - clientHeight, scrollTop }));
  const { width, height } = tab.viewportSize();
  await tab.setViewportSize({ width, height: height + (await sizes()).hidden });
  await tab.locator(".turn.person").first().hover();
  await tab.getByRole("button", { name: "Edit and send again" }).first().click();
  await until(async () => (await sizes()).hidden > 0, "the form makes the conversation longer than its box");
  await tab.waitForTimeout(100);
  assert.equal((await sizes()).scrollTop, 0, "the conversation moved away from who edits a message");
  await tab.getByLabel("Your request").fill("something other");
  await tab.getByRole("button", { name: "Send again", exact: true }).click();
  await tab.getByRole("dialog").getByText(/This ends the plan: \d steps left/).waitFor();
  await tab.getByRole("button", { name: "Keep it" }).click();
  assert.equal(await tab.getByLabel("Your request").inputValue(), "something other", "what was typed stays");
  await tab.locator(".turn.person.editing").getByRole("button", { name: "Cancel" }).click();
  await plan.getByRole("button", { name: "Resume" }).click();
  await tab.getByText("Done.", { exact: true }).waitFor();
  await plan.getByText("9 steps: 8 completed · 1 skipped").waitFor();
  assert.equal(await plan.locator(".step.skipped").count(), 1);
});

test("on a phone the buttons of a long plan stay in view, and once paused it shows what is left", async () => {
  await scripted.send("POST", "/api/projects", { id: "tall", name: "A tall plan", scenes: Array.from({ length: 24 }, (_, i) => scene(i + 1)) });
  scripted.model.held = "change 2";
  const { conversationId } = await scripted.send("GET", "/api/artefacts/video/tall");
  const tab = await open(scripted, `/c/${conversationId}`, { viewport: { width: 390, height: 844 } });
  await say(tab, "edit 24 scenes");
  const plan = tab.getByRole("group", { name: "Plan of 24 steps" });
  await plan.getByText(/24 steps: 1\d completed/).waitFor();
  await plan.getByRole("button", { name: /^Skip “.*scene 24/ }).scrollIntoViewIfNeeded();
  const pause = plan.getByRole("button", { name: "Pause" });
  assert.ok((await pause.boundingBox()).y > 90, "it has scrolled away");
  await pause.click();
  scripted.model.held = "";
  const question = tab.getByRole("region", { name: "Question" });
  await question.getByText("The plan is paused. Go on with the steps that are left?").waitFor();
  await plan.getByText("Show all 24 steps").waitFor();
  const left = await plan.locator(".step").count();
  assert.ok(left > 0 && left < 12, `${left} steps are shown`);
  await picture(tab, "plan-paused-phone");
  await question.getByRole("button", { name: "Resume" }).click();
  await plan.getByText("24 steps completed").waitFor();
});

test("Home stops calling a thread running once the run has ended whose question was answered there", async () => {
  scripted.model.held = "change";
  await scripted.send("POST", "/api/projects", { id: "shown-first", scenes: [scene(1), scene(2)] });
  const { conversationId: thread } = await scripted.send("GET", "/api/artefacts/video/shown-first");
  const body = { assistant_id: "scene_edit", input: { messages: [{ role: "user", content: "edit 2 scenes" }] }, context: { approve_plan: true } };
  await scripted.send("POST", `/threads/${thread}/runs/wait`, body);
  const tab = await open(scripted, "/");
  const question = tab.locator(".question", { has: tab.locator(`a[href="/c/${thread}"]`) });
  await question.getByRole("button", { name: "Approve all" }).click();
  const row = tab.locator(".row", { has: tab.locator(`a[href="/c/${thread}"]`) }).last();
  await row.getByText("Running").waitFor();
  scripted.model.held = "";
  await row.getByText("Running").waitFor({ state: "detached" });
});

test("a plan with a failed step counts its steps by what came of them, shows the error whole, and is undone as a whole", async () => {
  await scripted.send("POST", "/api/projects", { id: "half", scenes: [scene(1), scene(2), scene(3)] });
  const { conversationId } = await scripted.send("GET", "/api/artefacts/video/half");
  scripted.model.refused = "change 2";
  const tab = await open(scripted, `/c/${conversationId}`, { viewport: { width: 390, height: 844 } });
  await say(tab, "edit 3 scenes");
  const plan = tab.getByRole("group", { name: "Plan of 3 steps" });
  await plan.getByText("3 steps: 2 completed · 1 failed").waitFor();
  scripted.model.refused = "";
  const error = await plan.locator(".step-error").boundingBox();
  assert.ok(error.width > 250, `the error is ${error.width} pixels wide`);
  await plan.getByRole("button", { name: "Undo the plan" }).click();
  await tab.getByText("The plan is undone.").waitFor();
  await tab.getByText("2 steps completed").waitFor();
  await tab.reload();
  await tab.getByText("2 steps completed").waitFor();
  assert.equal(await tab.locator(".plan-head").count(), 2);
});

test("a scene is moved from place to place by keys, and keeps the focus", async () => {
  await offline.send("POST", "/api/projects", { id: "keys", name: "Moved by keys", scenes: [scene(1), scene(2), scene(3)] });
  const tab = await open(offline, "/c/keys");
  const names = () => tab.locator(".scene strong").allInnerTexts();
  const [first] = await until(async () => { const shown = await names(); return shown.length === 3 && shown; }, "the scenes are shown");
  const later = tab.getByRole("button", { name: `Move ${first} later`, exact: true });
  const focused = () => later.evaluate((button) => button === document.activeElement);
  await later.focus();
  await tab.keyboard.press("Enter");
  await until(async () => (await names())[1] === first && (await later.getAttribute("aria-disabled")) === "false", "it is the second");
  assert.ok(await focused());
  // A key is not heard while the move before is stored; the last scene goes no further.
  await until(async () => {
    await tab.keyboard.press("Alt+ArrowRight");
    return (await names())[2] === first;
  }, "it is the last");
  await until(async () => (await offline.send("GET", "/api/projects/keys/scenes")).scenes[2].name === first, "the server has the order");
  assert.ok(await focused());
  const bars = await tab.frameLocator(".scene iframe").first().locator("html").evaluate((page) => page.scrollHeight - page.clientHeight);
  assert.equal(bars, 0, "a scene fills its frame");
});

test("a step that changed the order of scenes names it, as the tab of its versions does", async () => {
  await offline.send("POST", "/api/projects", { id: "moved", name: "Moved scenes", scenes: [scene(1), scene(2)] });
  await offline.send("PUT", "/api/projects/moved/order", { sceneIds: ["scene-2", "scene-1"] });
  const tab = await open(offline, "/c/moved");
  await tab.getByRole("heading", { name: "Moved scenes", level: 1 }).waitFor();
  await tab.getByRole("link", { name: "order of the scenes v2" }).click();
  await tab.getByRole("article", { name: "Order of the scenes v2" }).waitFor();
});

test("a question is answered after the server has restarted, and the page returns by itself", async () => {
  const tab = await open(offline, "/");
  await start(tab, "page_builder", "delete the features section");
  await tab.getByRole("region", { name: "Question" }).waitFor();
  await offline.stop();
  await tab.locator(".banner").waitFor();
  await offline.start();
  await tab.locator(".banner").waitFor({ state: "detached" });
  await tab.getByRole("region", { name: "Question" }).getByRole("button", { name: "Approve" }).click();
  await changed(tab, "Changed:");
});

test("words that come while the connection is gone are on the screen once it is back", async () => {
  await scripted.ensure();
  const proxy = await new TcpProxy(scripted.port).start();
  const tab = await open({ url: proxy.url }, "/");
  scripted.model.pieces = Array.from({ length: 60 }, (_, i) => `word${i} `);
  scripted.model.paceMs = 50;
  await start(tab, "page_builder", "say many words");
  await tab.getByText("word5").waitFor();
  proxy.cut();
  await tab.locator(".banner").waitFor();
  await proxy.restore();
  await tab.getByText("word59").waitFor();
  const shown = await tab.locator(".turn.model").first().innerText();
  assert.deepEqual(shown.match(/word\d+/g), Array.from({ length: 60 }, (_, i) => `word${i}`));
  await proxy.stop();
});

test("a tab that slept sees what happened meanwhile", async () => {
  await offline.ensure();
  const proxy = await new TcpProxy(offline.port).start();
  const tab = await open({ url: proxy.url }, "/");
  await start(tab, "ad_creation", EXAMPLES.ad_creation);
  await answered(tab, "Ready to review");
  await tab.locator(".turn.person").waitFor();
  const thread = threadOf(tab);
  await tab.clock.install();
  proxy.stall();
  const body = { assistant_id: "ad_creation", input: { messages: [{ role: "user", content: "make the music more upbeat" }] } };
  await offline.send("POST", `/threads/${thread}/runs/wait`, body);
  assert.equal(await tab.locator(".turn.person").count(), 1);
  proxy.cut();
  await proxy.restore();
  await tab.clock.fastForward("02:00:00");
  await tab.locator(".turn.person", { hasText: "more upbeat" }).waitFor();
  await proxy.stop();
});

test("a graph of one's own asks by its schema, and its state is shown", async () => {
  const { thread_id: thread } = await offline.send("POST", "/threads", { metadata: { graph_id: "ordering" } });
  await offline.send("POST", `/threads/${thread}/runs/wait`, { assistant_id: "ordering", input: { item: "muffins" } });
  const tab = await open(offline, "/");
  const question = tab.locator(".question", { hasText: "How many muffins?" });
  await question.getByText("They are ordered at once").waitFor();
  const fold = question.getByRole("button", { name: "Answer", exact: true });
  if (await fold.isVisible()) await fold.click();
  await question.getByLabel("Count").selectOption("2");
  await question.getByRole("button", { name: "Answer", exact: true }).click();
  await question.waitFor({ state: "detached" });
  await until(async () => (await offline.send("GET", `/threads/${thread}/state`)).values.count === 2, "the answer is in the state");
  await tab.goto(`${offline.url}/c/${thread}`);
  await tab.getByRole("region", { name: "What is made" }).getByText("muffins").waitFor();
  const result = tab.getByRole("region", { name: "Result" });
  await result.getByText("muffins").waitFor();
  await picture(tab, "own-graph-result");
});

test("a graph without messages is started by the fields of its input, which stay on the page, and again with others", async () => {
  const tab = await open(offline, "/");
  await tab.getByLabel("Workflow").selectOption("ordering");
  await tab.getByLabel("Item").fill("muffins");
  await tab.getByRole("button", { name: "Start", exact: true }).click();
  await tab.getByText("How many muffins?").first().waitFor();
  await tab.getByRole("region", { name: "Input" }).getByText("muffins").waitFor();
  await tab.getByLabel("Count").selectOption("2");
  await tab.getByRole("button", { name: "Answer", exact: true }).click();
  await tab.getByRole("region", { name: "Result" }).getByText("2").waitFor();
  await tab.reload();
  const again = tab.getByLabel("Item");
  await until(async () => (await again.inputValue()) === "muffins", "the form has the last input");
  await picture(tab, "own-graph-input");
  assert.deepEqual(await faultsOf(tab), []);
  await again.fill("rolls");
  await tab.getByRole("button", { name: "Start", exact: true }).click();
  await tab.getByText("How many rolls?").first().waitFor();
  await tab.getByRole("region", { name: "Input" }).getByText("rolls").waitFor();
});

test("a server of other graphs alone shows no page and no words of the workflows that it lacks", async () => {
  const own = new Server("own", { CALLSHEET_CONFIG: join(folder, "own.json") });
  try {
    await own.send("POST", "/threads", {});
    const tab = await open(own, "/");
    await tab.getByLabel("Item").waitFor();
    await tab.getByRole("link", { name: "Empty thread" }).waitFor();
    await picture(tab, "own-graph-home");
    assert.deepEqual(await tab.getByRole("navigation").getByRole("link").allInnerTexts(), ["Callsheet", "Home", "Settings"]);
    assert.equal(await tab.getByText(/offline model/).count(), 0);
    for (const path of ["/campaigns", "/artefacts"]) {
      await tab.goto(own.url + path);
      await tab.getByText("No workflow of this server has this page").waitFor();
      assert.equal(await tab.getByRole("button", { name: /Import|Export/ }).count(), 0);
    }
    await tab.goto(`${own.url}/settings`);
    await tab.getByText("none of Callsheet's tools").waitFor();
    await tab.getByText(/version \d/).waitFor();
    await picture(tab, "own-graph-settings");
  } finally {
    await own.stop();
  }
});

test("the inspector forks a thread at a checkpoint with another state", async () => {
  const { thread_id: thread } = await offline.send("POST", "/threads", { metadata: { graph_id: "ordering" } });
  await offline.send("POST", `/threads/${thread}/runs/wait`, { assistant_id: "ordering", input: { item: "rolls" } });
  const tab = await open(offline, `/inspect/${thread}`);
  await tab.getByRole("button", { name: "Continue from here" }).click();
  const dialog = tab.getByRole("dialog");
  await dialog.getByLabel("Its value as JSON").fill('"buns"');
  await dialog.getByRole("button", { name: "Change it and continue" }).click();
  await tab.waitForURL(/\/c\//);
  await tab.getByText("How many buns?").first().waitFor();
});

test("signing in leaves a cookie that no script reads, and signing out ends the session", async () => {
  const key = guarded.createKey("alice", "write");
  const tab = await open(guarded, "/");
  await tab.getByLabel(/key/i).fill("wrong");
  await tab.keyboard.press("Enter");
  await tab.locator("[role=alert], .field-error").first().waitFor();
  await tab.getByLabel(/key/i).fill(key);
  await tab.keyboard.press("Enter");
  await tab.getByRole("heading", { name: "Start something" }).waitFor();
  const [cookie] = await tab.context().cookies();
  assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite], ["callsheet_session", true, "Strict"]);
  assert.equal(await tab.evaluate(() => document.cookie), "");
  await start(tab, "campaign_search", EXAMPLES.campaign_search);
  await tab.locator(".turn.model").first().waitFor();
  await tab.getByRole("button", { name: /^Sign out/ }).click();
  await tab.getByLabel(/key/i).waitFor();
  assert.equal(await tab.evaluate(async () => (await fetch("/api/questions")).status), 401);
});

test("a key that may only read is offered nothing that writes", async () => {
  const writer = { "X-Api-Key": guarded.createKey("bo", "write") };
  const ids = {};
  for (const [workflow, text] of Object.entries(EXAMPLES)) {
    const { thread_id: thread } = await guarded.send("POST", "/threads", { metadata: { graph_id: workflow } }, writer);
    const body = { assistant_id: workflow, input: { messages: [{ role: "user", content: text }] } };
    await guarded.send("POST", `/threads/${thread}/runs/wait`, body, writer);
    ids[workflow] = thread;
  }
  const tab = await open(guarded, "/");
  await tab.getByLabel(/key/i).fill(guarded.createKey("bo", "read"));
  await tab.keyboard.press("Enter");
  await tab.getByRole("heading", { name: "Recent" }).waitFor();
  const paths = ["/", "/artefacts", "/campaigns", ...Object.values(ids).map((id) => `/c/${id}`), `/inspect/${ids.ad_creation}`, `/c/${ids.ad_creation}?tab=versions`];
  const writes = /^(activate|restore|lock|unlock|edit|delete|import|start|send|approve|answer|use|save|undo|redo|move|stop|pause|cancel|continue)\b/i;
  for (const path of paths) {
    await tab.goto(guarded.url + path);
    await settle(tab);
    const names = await tab.locator("main :is(button, input[type=range], textarea):not(:disabled)").evaluateAll((all) =>
      all.map((one) => one.getAttribute("aria-label") ?? (one.textContent || one.closest("label")?.textContent || one.tagName)));
    // A film is made and saved in the browser.
    assert.deepEqual(names.filter((name) => writes.test(name.trim()) && name.trim() !== "Save as WebM"), [], path);
    assert.equal(await tab.locator("main :is(textarea, input[type=range]):not(:disabled)").count(), 0, path);
  }
});

test("the reason of an error stands once in a turn, in the model's words or at its step", async () => {
  await offline.send("POST", "/api/ai/generate", { adId: "locked-ad", brief: { clientDescription: EXAMPLES.ad_creation }, provider: "offline" });
  await offline.send("PUT", "/api/ads/locked-ad/locks/music");
  const { threadId } = await scripted.send("POST", "/api/projects", { id: "locked-video", starter: "app-promo" });
  await scripted.send("PUT", "/api/projects/locked-video/locks/scene-2");
  for (const [server, thread, text] of [
    [offline, "locked-ad", "make the music louder"],
    [scripted, threadId, 'call submit_plan {"steps":[{"tool":"trimScene","scenes":["scene-2"],"seconds":4}]}'],
  ]) {
    const tab = await open(server, `/c/${thread}`);
    await tab.getByRole("region", { name: "Conversation" }).waitFor();
    await say(tab, text);
    const line = tab.locator(".turn.receipt").last();
    await line.getByText("Nothing was changed.", { exact: true }).waitFor();
    const turn = await tab.locator(".turns").innerText();
    assert.equal([...turn.matchAll(/is locked by its owner/g)].length, 1, turn);
  }
});
