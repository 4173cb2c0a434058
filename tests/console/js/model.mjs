// A model endpoint on loopback (Chat Completions) that answers by rules, at the pace that a test sets.
import { createServer } from "node:http";

const BACKGROUND = { background: "#abcdef" };

export class ScriptedModel {
  count = 0;

  constructor() {
    this.reset();
  }

  /** Answer as before the first test: what a test sets is not left to the next. */
  reset() {
    /** Milliseconds between the pieces of a text. */
    this.paceMs = 0;
    /** Steps whose prompt contains this text wait until it is cleared. */
    this.held = "";
    /** Steps whose prompt contains this text get an answer that does not fit. */
    this.refused = "";
    /** Text for the next messages, as a list of pieces or a function that makes the piece of a number. */
    this.pieces = ["Done", "."];
  }

  async start() {
    this.server = createServer((request, reply) => {
      let body = "";
      request.on("data", (part) => { body += part; });
      request.on("end", () => void this.answer(JSON.parse(body), reply).catch(() => reply.destroy()));
    });
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
  }

  get environ() {
    return {
      OPENAI_API_KEY: "sk-scripted", OPENAI_BASE_URL: `http://127.0.0.1:${this.server.address().port}/v1`, OPENAI_MAX_RETRIES: "0",
    };
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }

  async answer({ messages, tools = [], stream = false, model }, reply) {
    const names = tools.map((tool) => tool.function.name);
    const last = messages.at(-1);
    if (!names.includes("submit_plan") && names.length === 1) return this.fillForm(messages, names[0], model, stream, reply);
    const [, named, args] = (last.role === "user" && /^call (\w+) (\{.*\})$/m.exec(last.content)) || [];
    if (named) return this.call(model, stream, reply, named, JSON.parse(args));
    const wanted = last.role === "user" ? /edit (\d+) scenes/.exec(last.content)?.[1] : undefined;
    if (!wanted) return this.speak(model, stream, reply);
    const steps = Array.from({ length: Number(wanted) }, (_, i) => ({ tool: "editScene", scenes: [`scene-${i + 1}`], prompt: `change ${i + 1}` }));
    return this.call(model, stream, reply, "submit_plan", { steps });
  }

  async fillForm(messages, form, model, stream, reply) {
    const prompt = JSON.parse(messages[1].content).request ?? "";
    const refused = this.refused && prompt.includes(this.refused);
    while (!refused && this.held && prompt.includes(this.held)) await new Promise((resolve) => setTimeout(resolve, 20));
    return this.call(model, stream, reply, form, refused ? { background: 7 } : BACKGROUND);
  }

  call(model, stream, reply, name, values) {
    this.count += 1;
    const call = { index: 0, id: `call_${this.count}`, type: "function", function: { name, arguments: JSON.stringify(values) } };
    return this.send(model, stream, reply, [{ tool_calls: [call] }], "tool_calls");
  }

  async speak(model, stream, reply) {
    const pieces = typeof this.pieces === "function" ? this.pieces() : this.pieces;
    return this.send(model, stream, reply, pieces.map((content) => ({ content })), "stop");
  }

  async send(model, stream, reply, deltas, finish) {
    const usage = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };
    const shared = { id: `chatcmpl-${this.count}`, created: 1, model };
    if (!stream) {
      const message = { role: "assistant", content: deltas.map((one) => text(one.content)).join("") || null, ...(deltas[0].tool_calls && { tool_calls: deltas[0].tool_calls }) };
      reply.setHeader("Content-Type", "application/json");
      return reply.end(JSON.stringify({ ...shared, object: "chat.completion", choices: [{ index: 0, message, finish_reason: finish }], usage }));
    }
    reply.writeHead(200, { "Content-Type": "text/event-stream" });
    const write = (choices, more = {}) => reply.write(`data: ${JSON.stringify({ ...shared, object: "chat.completion.chunk", choices, ...more })}\n\n`);
    for (const delta of deltas) {
      if (this.paceMs && delta.content) await new Promise((resolve) => setTimeout(resolve, this.paceMs));
      write([{ index: 0, delta: { role: "assistant", ...delta, ...(delta.content && { content: text(delta.content) }) }, finish_reason: null }]);
    }
    write([{ index: 0, delta: {}, finish_reason: finish }]);
    write([], { usage });
    return reply.end("data: [DONE]\n\n");
  }
}

function text(piece) {
  return typeof piece === "function" ? piece() : (piece ?? "");
}
