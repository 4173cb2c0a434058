// Scenarios for each hook. A scenario gets a function that opens a tab, and returns what the page recorded.
const TALE = "Once upon a time a server was asked twice, and told it once.";
const LONG = `${TALE} ${TALE}`;
/** A reply that takes most of a minute unless it is cancelled. */
const ENDLESS = Array(25).fill(TALE).join(" ");

async function openUntilInterrupt(open, graph) {
  const tab = await open({ graph });
  await tab.send("hello");
  await tab.waitForText("Approve");
  await tab.waitForRunEnd();
  return tab;
}

async function openAndSend(open, tale) {
  const tab = await open({ graph: "teller" });
  await tab.send(tale);
  return tab;
}

async function openDuringReply(open, tale = LONG) {
  const tab = await openAndSend(open, tale);
  await tab.waitUntil(() => record.answers.length > 5);
  return tab;
}

async function reportCompleteReply(tab) {
  await tab.waitUntil((tale) => record.answers.at(-1) === tale, LONG);
  await tab.waitForTicks(LONG.split(" ").length);
  await tab.waitForIdle();
  return await tab.report();
}

/** Sends a message, repeats the turn, sends another message, and edits that. */
async function haveConversation(open) {
  const tab = await openAndSend(open, TALE);
  await tab.waitForReply(TALE);
  await tab.waitForTicks(TALE.split(" ").length);
  const first = await tab.report();
  await tab.press("Again");
  await tab.waitForReply(TALE);
  const repeated = await tab.report();
  await tab.send("green");
  await tab.waitForReply("green");
  await tab.fillAndPress("blue", "Edit", 1);
  await tab.waitForReply("blue");
  const edited = await tab.report();
  const branches = [];
  for (const name of await tab.page.getByRole("button", { name: "Branch" }).allTextContents()) {
    await tab.press(name);
    branches.push(await tab.messages());
  }
  return { first, repeated, branches, ...edited };
}

async function answerInterrupt(open) {
  const tab = await openUntilInterrupt(open, "parent");
  const interrupt = JSON.parse(await tab.page.locator("form code").textContent());
  await tab.press("Approve");
  await tab.waitForReply("Done deal");
  await tab.waitForTicks(2);
  return { interrupt, openInterrupts: await tab.page.locator("form").count(), ...(await tab.report()) };
}

/** Answers an interrupt after a reload, and updates the state. */
async function answerAfterReload(open) {
  const tab = await openUntilInterrupt(open, "agent");
  await tab.page.reload();
  await tab.press("Approve");
  await tab.waitForReply("Done deal");
  const answered = await tab.report();
  const [message] = answered.state.values.messages;
  const updated = tab.page.waitForResponse(
    (response) => response.url().endsWith("/state") && response.request().method() === "POST",
  );
  await tab.fillAndPress(JSON.stringify({ messages: [{ ...message, content: "good day" }] }), "Change");
  await updated;
  await tab.page.reload();
  await tab.waitForText("good day");
  return { answered, ...(await tab.report()) };
}

async function reloadDuringRun(open) {
  const tab = await openDuringReply(open);
  await tab.page.reload();
  await tab.waitUntil(() => record.answers.length > 0);
  const { answers } = await tab.readRecord();
  return { partialReply: answers.at(-1), ...(await reportCompleteReply(tab)) };
}

async function cutConnection(open) {
  const tab = await openDuringReply(open);
  const { answers } = await tab.readRecord();
  const cut = tab.cut();
  return { partialReply: answers.at(-1), cut, ...(await reportCompleteReply(tab)) };
}

async function cancelRun(open) {
  const tab = await openDuringReply(open, ENDLESS);
  await tab.press("Stop");
  await tab.waitForIdle();
  const messagesAfterStop = await tab.messages();
  await tab.send("Again");
  // The partial reply that the server has not stored is shown last.
  await tab.waitUntil(
    () => [...document.querySelectorAll("li q")].filter((line) => line.textContent === "Again").length === 2,
  );
  await tab.waitForRunEnd();
  return { messagesAfterStop, ...(await tab.report()) };
}

async function callTools(open) {
  const tab = await open({ graph: "tools" });
  await tab.send("double it");
  await tab.waitUntil(() => document.querySelector("ul.tools").textContent.endsWith("8"));
  await tab.waitForRunEnd();
  return await tab.report();
}

/** Two tabs on one thread show the same, and the interrupt is answered once. */
async function shareThread(open) {
  const tab = await openUntilInterrupt(open, "agent");
  const otherTab = await open({ graph: "agent", thread: await tab.page.evaluate(() => thread) });
  await otherTab.press("Approve");
  await otherTab.waitForReply("Done deal");
  await tab.waitForText("Done deal");
  await tab.waitForIdle();
  await tab.press("Approve");
  await tab.waitUntil(() => record.errors.length > 0);
  return { other: await otherTab.report(), ...(await tab.report()) };
}

async function authenticate(open, key) {
  const tab = await open({ graph: "teller", key });
  await tab.send("red");
  await tab.waitForReply("red");
  return await tab.report();
}

async function failRun(open) {
  const tab = await open({ graph: "boom" });
  await tab.send("hello");
  await tab.waitUntil(() => record.errors.length > 0);
  await tab.waitForIdle();
  return await tab.report();
}

async function createAd(open) {
  const tab = await open({ graph: "ad_creation" });
  await tab.send("Make a 30 second ad for Miel, a bakery in Lyon, for families in the neighbourhood");
  await tab.waitForReply("Ready to review: voices v1");
  await tab.waitForTicks(12);
  return await tab.report();
}

const WITH_SOCKET = { answerInterrupt, reloadDuringRun, cutConnection, authenticate };
const ALL = { ...WITH_SOCKET, haveConversation, answerAfterReload, cancelRun, callTools, failRun, createAd };
const HOOKS = {
  legacy: { scenes: ALL, query: { hook: "legacy" } },
  current: { scenes: { ...ALL, shareThread }, query: { hook: "current" } },
  socket: { scenes: WITH_SOCKET, query: { hook: "current", transport: "websocket" } },
};

export const scenarios = Object.entries(HOOKS).flatMap(([hook, { scenes, query }]) =>
  Object.entries(scenes).map(([name, play]) => ({ title: `${name} ${hook}`, query, play })),
);
