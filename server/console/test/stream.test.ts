import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { openStream, pauseMs, type StreamEvent } from "../src/stream.ts";

type Reply = (request: IncomingMessage, response: ServerResponse) => void;
const scripts = new Map<string, Reply[]>();
const received: { path: string; lastEventId: string | undefined }[] = [];
const tab = new EventTarget();
const hide = (hidden: boolean) => {
  Object.assign(tab, { hidden });
  tab.dispatchEvent(new Event("visibilitychange"));
};
const server = createServer((request, response) => {
  const path = request.url ?? "";
  received.push({ path, lastEventId: request.headers["last-event-id"] as string | undefined });
  const reply = scripts.get(path)?.shift();
  if (reply) reply(request, response);
});

before(async () => {
  Object.assign(globalThis, { addEventListener: () => {}, removeEventListener: () => {}, document: Object.assign(tab, { hidden: false }) });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
after(() => { server.closeAllConnections(); server.close(); });

const url = (path: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;
const requests = (path: string) => received.filter((one) => one.path === path).map((one) => one.lastEventId);
const events = (...ids: number[]): Reply => (_request, response) => {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  for (const id of ids) response.write(`id: ${id}\nevent: step\ndata: {"n": ${id}}\n\n`);
  response.end();
};
const silent: Reply = (_request, response) => { response.writeHead(200, { "Content-Type": "text/event-stream" }); response.write(": here\n\n"); };
const refused = (status: number, error: string): Reply => (_request, response) => {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify({ error, remedy: "read the state" }));
};

async function until(condition: () => boolean, what: string): Promise<void> {
  const end = Date.now() + 15_000;
  while (!condition()) {
    if (Date.now() > end) assert.fail(`not within 15 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

test("a stream that ends is opened again after its last event", async () => {
  scripts.set("/resume", [events(1, 2), events(3), silent]);
  const seen: StreamEvent[] = [];
  const close = openStream(url("/resume"), { onEvent: (event) => seen.push(event) });
  await until(() => requests("/resume").length === 3, "three requests");
  close();
  assert.deepEqual(seen.map((one) => [one.event, one.data.n, one.id]), [["step", 1, "1"], ["step", 2, "2"], ["step", 3, "3"]]);
  assert.deepEqual(requests("/resume"), [undefined, "2", "3"]);
});

test("after 410 the gap is reported and the stream begins without an id", async () => {
  scripts.set("/gap", [refused(410, "not kept"), silent]);
  let gaps = 0;
  const close = openStream(url("/gap"), { lastEventId: "7", onEvent: () => {}, onGap: () => { gaps += 1; } });
  await until(() => requests("/gap").length === 2, "two requests");
  close();
  assert.equal(gaps, 1);
  assert.deepEqual(requests("/gap"), ["7", undefined]);
});

test("a refusal ends the stream and brings the server's remedy", async () => {
  scripts.set("/refused", [refused(404, "no such thread")]);
  const problems: string[] = [];
  openStream(url("/refused"), { onEvent: () => {}, onRefused: (error) => problems.push(`${error.message}; ${error.remedy}`) });
  await until(() => problems.length === 1, "a refusal");
  assert.deepEqual(problems, ["no such thread; read the state"]);
  assert.equal(requests("/refused").length, 1);
});

test("an outage is tried again, and reported until it is over", async () => {
  scripts.set("/outage", [refused(503, "storage is away"), silent]);
  const statuses: string[] = [];
  const close = openStream(url("/outage"), { onEvent: () => {}, onStatus: (status) => statuses.push(status) });
  await until(() => statuses.includes("open"), "an open stream");
  close();
  assert.deepEqual(statuses, ["connecting", "waiting", "open", "closed"]);
});

test("a stream that went silent is opened again", async () => {
  scripts.set("/silent", [silent, silent]);
  const close = openStream(url("/silent"), { onEvent: () => {}, silenceMs: 200 });
  await until(() => requests("/silent").length === 2, "a second request");
  close();
});

test("a hidden tab lets go of its connection and goes on where it was when it is seen again", async () => {
  let gone = false;
  const held: Reply = (request, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write('id: 4\nevent: step\ndata: {"n": 4}\n\n');
    request.on("close", () => { gone = true; });
  };
  scripts.set("/hidden", [held, silent]);
  const statuses: string[] = [];
  const seen: StreamEvent[] = [];
  const close = openStream(url("/hidden"), { hiddenMs: 20, onEvent: (event) => seen.push(event), onStatus: (status) => statuses.push(status) });
  await until(() => seen.length === 1, "an event");
  hide(true);
  await until(() => gone && statuses.at(-1) === "paused", "a pause");
  hide(false);
  await until(() => requests("/hidden").length === 2, "a second request");
  close();
  assert.deepEqual(requests("/hidden"), [undefined, "4"]);
  assert.ok(!statuses.includes("waiting"));
});

test("a run's stream is not opened again after its end", async () => {
  scripts.set("/run", [events(1)]);
  let ends = 0;
  openStream(url("/run"), { onEvent: () => {}, onEnd: () => { ends += 1; } });
  await until(() => ends === 1, "the end");
  assert.deepEqual(requests("/run"), [undefined]);
});

test("pauses between tries grow to five seconds", () => {
  assert.deepEqual([1, 2, 3, 9].map((failures) => pauseMs(failures, 0.5)), [500, 1_000, 2_000, 5_000]);
});
