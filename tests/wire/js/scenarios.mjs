// What a person does with each hook. A scenario is given what opens a page, and returns what was seen.
const TALE = "Once upon a time a server was asked twice, and told it once.";
const LONG = `${TALE} ${TALE}`;
/** What is being told for most of a minute, if nobody stops it. */
const ENDLESS = Array(25).fill(TALE).join(" ");

async function asking(open, graph) {
  const one = await open({ graph });
  await one.say("hello");
  await one.shown("Approve");
  await one.ended();
  return one;
}

async function telling(open, tale) {
  const one = await open({ graph: "teller" });
  await one.say(tale);
  return one;
}

async function midway(open, tale = LONG) {
  const one = await telling(open, tale);
  await one.until(() => seen.answers.length > 5);
  return one;
}

async function wholly(one) {
  await one.until((tale) => seen.answers.at(-1) === tale, LONG);
  await one.ticked(LONG.split(" ").length);
  await one.idle();
  return await one.told();
}

/** Every turn of a conversation: said, said again, said otherwise. */
async function converses(open) {
  const one = await telling(open, TALE);
  await one.answered(TALE);
  await one.ticked(TALE.split(" ").length);
  const first = await one.told();
  await one.press("Again");
  await one.answered(TALE);
  const again = await one.told();
  await one.say("green");
  await one.answered("green");
  await one.write("blue", "Edit", 1);
  await one.answered("blue");
  const edited = await one.told();
  const branches = [];
  for (const name of await one.page.getByRole("button", { name: "Branch" }).allTextContents()) {
    await one.press(name);
    branches.push(await one.messages());
  }
  return { first, again, branches, ...edited };
}

async function answers(open) {
  const one = await asking(open, "parent");
  const asked = JSON.parse(await one.page.locator("form code").textContent());
  await one.press("Approve");
  await one.answered("Done deal");
  await one.ticked(2);
  return { asked, left: await one.page.locator("form").count(), ...(await one.told()) };
}

/** Answers a question on a page that was opened anew, and has what was said changed. */
async function comesBack(open) {
  const one = await asking(open, "agent");
  await one.page.reload();
  await one.press("Approve");
  await one.answered("Done deal");
  const answered = await one.told();
  const [said] = answered.state.values.messages;
  const changed = one.page.waitForResponse((it) => it.url().endsWith("/state") && it.request().method() === "POST");
  await one.write(JSON.stringify({ messages: [{ ...said, content: "good day" }] }), "Change");
  await changed;
  await one.page.reload();
  await one.shown("good day");
  return { answered, ...(await one.told()) };
}

async function reloads(open) {
  const one = await midway(open);
  await one.page.reload();
  await one.until(() => seen.answers.length > 0);
  const { answers } = await one.seen();
  return { early: answers.at(-1), ...(await wholly(one)) };
}

async function isCutOff(open) {
  const one = await midway(open);
  const { answers } = await one.seen();
  const cut = one.cut();
  return { early: answers.at(-1), cut, ...(await wholly(one)) };
}

async function stops(open) {
  const one = await midway(open, ENDLESS);
  await one.press("Stop");
  await one.idle();
  const left = await one.messages();
  await one.say("Again");
  // Half an answer that the server has not kept is shown last.
  await one.until(() => [...document.querySelectorAll("li q")].filter((it) => it.textContent === "Again").length === 2);
  await one.ended();
  return { left, ...(await one.told()) };
}

async function usesTools(open) {
  const one = await open({ graph: "tools" });
  await one.say("double it");
  await one.until(() => document.querySelector("ul.tools").textContent.endsWith("8"));
  await one.ended();
  return await one.told();
}

/** Two pages on one thread: each sees what the other does, and a question is answered once. */
async function isShared(open) {
  const one = await asking(open, "agent");
  const two = await open({ graph: "agent", thread: await one.page.evaluate(() => thread) });
  await two.press("Approve");
  await two.answered("Done deal");
  await one.shown("Done deal");
  await one.idle();
  await one.press("Approve");
  await one.until(() => seen.errors.length > 0);
  return { other: await two.told(), ...(await one.told()) };
}

async function saysWhoAsks(open, key) {
  const one = await open({ graph: "teller", key });
  await one.say("red");
  await one.answered("red");
  return await one.told();
}

async function fails(open) {
  const one = await open({ graph: "boom" });
  await one.say("hello");
  await one.until(() => seen.errors.length > 0);
  await one.idle();
  return await one.told();
}

async function makesAnAd(open) {
  const one = await open({ graph: "ad_creation" });
  await one.say("Make a 30 second ad for Miel, a bakery in Lyon, for families in the neighbourhood");
  await one.answered("Ready to review: voices v1");
  await one.ticked(12);
  return await one.told();
}

const OVER_A_SOCKET = { answers, reloads, isCutOff, saysWhoAsks };
const ALL = { ...OVER_A_SOCKET, converses, comesBack, stops, usesTools, fails, makesAnAd };
const HOOKS = {
  legacy: { plays: ALL, query: { hook: "legacy" } },
  current: { plays: { ...ALL, isShared }, query: { hook: "current" } },
  socket: { plays: OVER_A_SOCKET, query: { hook: "current", transport: "websocket" } },
};

export const scenarios = Object.entries(HOOKS).flatMap(([hook, { plays, query }]) =>
  Object.entries(plays).map(([name, play]) => ({ title: `${name} ${hook}`, query, play })),
);
