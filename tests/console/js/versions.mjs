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
  await tab.getByRole("button", { name: "Edit the words of track-0" }).click();
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
