// Versions that another client has made, or that are not kept any more, as a tab meets them.
import assert from "node:assert/strict";
import { EXAMPLES, offline, open, test } from "./harness.mjs";

const brief = { clientDescription: EXAMPLES.ad_creation };

/** Save words over a version that another client has changed: they stay, and the next save applies to the newest. */
async function saveTwice(tab, { box, save, newest, typed }) {
  await box.fill(typed);
  await save.click();
  await tab.getByText(`${newest} is the newest version now, and is shown beside your words.`).waitFor();
  assert.equal(await box.inputValue(), typed);
}

test("words that meet a newer version stay, the newest is shown beside them, and the next save applies to it", async () => {
  const page = await offline.send("POST", "/api/pages/met/chat", { message: EXAMPLES.page_builder, provider: "offline" });
  const tab = await open(offline, `/c/${page.conversationId}`);
  await tab.getByLabel("Select an element").selectOption("heading-1");
  const { versionId } = await offline.send("GET", "/api/pages/met");
  const { id } = await offline.send("PATCH", "/api/pages/met/elements/heading-1", { content: "Bread at three", version: versionId });
  const text = tab.getByLabel("Text of heading-1");
  const saveText = tab.getByRole("button", { name: "Save the text" });
  await saveTwice(tab, { box: text, save: saveText, newest: id, typed: "Bread at four" });
  await tab.frameLocator("iframe").getByRole("heading", { name: "Bread at three" }).waitFor();
  await saveText.click();
  await tab.frameLocator("iframe").getByRole("heading", { name: "Bread at four" }).waitFor();

  const ad = await offline.send("POST", "/api/ai/generate", { adId: "met-ad", brief, provider: "offline" });
  await tab.goto(`${offline.url}/c/${ad.conversationId}`);
  await tab.getByRole("button", { name: "Edit the words of voice 1" }).click();
  await offline.send("PATCH", "/api/ads/met-ad/voices/tracks/track-0", { text: "Cycle along the river.", version: "v1" });
  const saveWords = tab.getByRole("button", { name: "Save as a new version" });
  await saveTwice(tab, { box: tab.getByLabel("Words of this voice"), save: saveWords, newest: "v2", typed: "Ride along the river." });
  await tab.getByText("Cycle along the river.").waitFor();
  await saveWords.click();
  await tab.locator(".track p", { hasText: "Ride along the river." }).waitFor();

  const { sessionId } = await offline.send("POST", "/api/agent-create/tools", { messages: [{ role: "user", content: EXAMPLES.fact_narration }] });
  await offline.send("POST", `/api/agent-create/tools?sessionId=${sessionId}`, { selectedFacts: [1, 2], messages: [] });
  const narration = `/api/agent-create/session/narration?sessionId=${sessionId}`;
  const [segment] = (await offline.send("GET", `/api/agent-create/session?sessionId=${sessionId}`)).narration.segments;
  await tab.goto(`${offline.url}/c/${sessionId}`);
  await tab.locator(".segment .icon-button").first().click();
  await offline.send("PATCH", narration, { segments: [{ id: segment.id, narration: "Plants are cooks." }], version: "v1" });
  await saveTwice(tab, { box: tab.locator(".segment textarea"), save: saveWords, newest: "v2", typed: "Plants are bakers." });
  await tab.getByText("Plants are cooks.").waitFor();
  await saveWords.click();
  await tab.locator(".segment p", { hasText: "Plants are bakers." }).waitFor();
});

test("a pronunciation that is refused stays in its fields", async () => {
  const ad = await offline.send("POST", "/api/ai/generate", { adId: "refused", brief, provider: "offline" });
  const tab = await open(offline, `/c/${ad.conversationId}`);
  await tab.getByText("Pronunciations").click();
  await tab.route("**/api/ads/refused/pronunciations", (route) => (route.request().method() === "PUT"
    ? route.fulfill({ status: 503, json: { error: "storage is full", type: "unavailable", remedy: "try again later" } }) : route.continue()));
  await tab.getByLabel("Name as it is written").fill("Porto");
  await tab.getByLabel("How it is spoken").fill("poor-too");
  await tab.getByRole("button", { name: "Add", exact: true }).click();
  await tab.getByText(/storage is full/i).waitFor();
  assert.equal(await tab.getByLabel("Name as it is written").inputValue(), "Porto");
});

test("words that are typed while a turn changes the text stay, and the new text is shown before they replace it", async () => {
  const ad = await offline.send("POST", "/api/ai/generate", { adId: "turned", brief, provider: "offline" });
  const tab = await open(offline, `/c/${ad.conversationId}`);
  await tab.getByRole("button", { name: "Edit the words of voice 1" }).click();
  const box = tab.getByLabel("Words of this voice");
  await box.fill("Ride along the river.");
  await offline.send("PATCH", "/api/ads/turned/voices/tracks/track-0", { text: "Cycle along the river.", version: "v1" });
  assert.equal(await tab.getByText("Cycle along the river.").count(), 0);
  // The turn is about something else; the panel reads the ad again when it ends.
  await offline.send("POST", "/api/ads/turned/chat", { message: "make the music calmer", provider: "offline" });
  await tab.getByText("v2 is the newest version now, and is shown beside your words.").waitFor();
  await tab.getByText("“Cycle along the river.”").waitFor();
  assert.equal(await box.inputValue(), "Ride along the river.");
  await tab.getByRole("button", { name: "Save as a new version" }).click();
  await tab.locator(".track p", { hasText: "Ride along the river." }).waitFor();
});

/** Have the server's replies be those of one that has removed old versions of the music of an ad; returns their names. */
async function withoutOldVersions(tab, ad) {
  const removed = new Set();
  await tab.route(new RegExp(`/api/(artefacts/ad|ads)/${ad}/music`), async (route) => {
    const named = new URL(route.request().url()).pathname.match(/v\d+/g) ?? [];
    const gone = named.find((one) => removed.has(one));
    if (gone) return route.fulfill({ status: 410, json: { error: `music version '${gone}' of ad '${ad}' is not kept any more`, type: "gone", remedy: "list the music versions to see which there are" } });
    if (named.length > 0) return route.continue();
    const response = await route.fetch();
    const list = await response.json();
    return route.fulfill({ response, json: { ...list, versions: list.versions.filter((one) => !removed.has(one.id)) } });
  });
  return removed;
}

test("a version that is not kept any more is called that once, by a link, in a list and as what another was made of", async () => {
  const ad = await offline.send("POST", "/api/ai/generate", { adId: "old", brief, provider: "offline" });
  for (let i = 2; i <= 5; i += 1) await offline.send("POST", "/api/ads/old/music", { musicPrompt: `warm ${i}` });
  const place = `/c/${ad.conversationId}?stream=music`;
  const tab = await open(offline, place);
  const removed = await withoutOldVersions(tab, "old");
  const chip = (version) => tab.locator(".chip", { hasText: new RegExp(`^${version}$`) });
  const alerts = () => tab.locator("[role=alert]").count();
  await chip("v2").click();
  await tab.getByRole("button", { name: "Activate" }).waitFor();
  for (const one of ["v1", "v2", "v3"]) removed.add(one);
  await chip("v3").click();
  await tab.getByText("v3 is not kept any more", { exact: true }).waitFor();
  await chip("v3").waitFor({ state: "detached" });
  assert.equal(await alerts(), 0);
  assert.equal(await tab.getByRole("button", { name: /Activate|Restore/ }).count(), 0);
  await tab.getByRole("button", { name: "Show the newest" }).click();
  await tab.getByRole("article", { name: "Music v5" }).waitFor();

  removed.clear();
  await tab.goto(`${offline.url}${place}&version=v2`);
  const activate = tab.getByRole("button", { name: "Activate" });
  await activate.waitFor();
  removed.add("v2");
  await activate.click();
  await tab.getByText(/v2.* is not kept any more/).waitFor();
  await chip("v2").waitFor({ state: "detached" });
  assert.equal(await alerts(), 1);

  await tab.goto(`${offline.url}${place}&version=v77`);
  await tab.getByText("There is no v77", { exact: true }).waitFor();
  await tab.goto(`${offline.url}${place}&version=v3`);
  await tab.getByText("v2 is not kept any more, so there is nothing to compare with.").waitFor();
  assert.equal(await alerts(), 0);
});
