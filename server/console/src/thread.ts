// One thread on the screen: its state, the events of its runs, and what a person may do with it.
import { batch, computed, signal } from "@preact/signals";
import { api, path, type ApiError } from "./api.ts";
import { type Branch, branchesOf, checkpointBefore, errorText, type Item, itemsOf, newestOf, settled, versionsOf, withMessage, withoutStreaming, withStep } from "./conversation.ts";
import { isName } from "./format.ts";
import { newId } from "./ids.ts";
import { stepsLeft, takesWords } from "./interrupts.ts";
import { asApiError, attempt, notify, readQuestions, trackStream } from "./store.ts";
import { openStream, type StreamEvent } from "./stream.ts";
import type { Fields, Interrupt, StepEvent, ThreadState } from "./types.ts";

const REVISION_MS = 300;
const HISTORY_PAGE = 50;

export class ThreadModel {
  readonly id: string;
  readonly items = signal<Item[]>([]);
  readonly values = signal<Fields>({});
  readonly workflow = signal("");
  /** The newest input of a graph that takes no messages. */
  readonly input = signal<Fields>({});
  readonly interrupts = signal<Interrupt[]>([]);
  readonly run = signal<string | null>(null);
  readonly sending = signal(false);
  readonly stopping = signal(false);
  readonly read = signal(false);
  readonly error = signal<ApiError | null>(null);
  /** Why the last run failed; empty if it did not. */
  readonly failure = signal("");
  /** Grows when something that the panel shows may have changed. */
  readonly revision = signal(0);
  /** Messages that took each other's place, by the id of each. */
  readonly branches = signal<ReadonlyMap<string, Branch[]>>(new Map());
  /** The newest checkpoint of the branch that is shown; empty for the thread's own. */
  readonly branch = signal("");
  /** The part of the artefact that "this" means, as the person has marked it. */
  readonly selected = signal<string | null>(null);
  /** Steps of a waiting plan that a message would end, and how the person decides; null while nothing is asked. */
  readonly asking = signal<{ steps: number; decide: (agreed: boolean) => void } | null>(null);
  readonly busy = computed(() => this.run.value !== null || this.sending.value);
  /** What lists call it: the title that a person gave it, else that of what was made. */
  readonly title = signal("");

  private close = () => {};
  private closeRun = () => {};
  private queue: StreamEvent[] = [];
  private scheduled = false;
  /** Words that a stopped run did not finish; the state lacks them. */
  private unfinished: Item[] = [];
  private revisionTimer = 0;
  private disposed = false;
  /** Number of the newest read of the state: a slower, older one is dropped. */
  private loads = 0;
  /** The run whose events are read from their beginning, beside the thread's stream. */
  private replayed: string | null = null;

  constructor(id: string) {
    this.id = id;
  }

  open(): void {
    void this.load();
    void this.readBranches();
    this.close = openStream(path`/threads/${this.id}/stream`, {
      onEvent: (event) => { if (!this.replayed) this.push(event); },
      onGap: () => void this.load(),
      onStatus: (status) => {
        trackStream("thread", status);
        if (status === "open") void this.load();
      },
      onRefused: (error) => { this.error.value = error; },
    });
  }

  dispose(): void {
    this.disposed = true;
    this.close();
    this.closeRun();
    clearTimeout(this.revisionTimer);
  }

  /** Read the stored state; the screen shows it, and the running run's words are read from their beginning. */
  async load(): Promise<void> {
    this.loads += 1;
    const load = this.loads;
    try {
      const [thread, state, [listed]] = await Promise.all([api.thread(this.id), api.state(this.id, this.branch.value), api.listed(this.id)]);
      const running = thread.status === "busy" ? (await api.runs(this.id)).find((one) => one.status === "running" || one.status === "pending") : undefined;
      if (this.disposed || load !== this.loads) return;
      batch(() => {
        this.error.value = null;
        this.read.value = true;
        this.title.value = isName(listed?.title) ? listed.title : "";
        this.workflow.value = thread.metadata.graph_id ?? this.workflow.value;
        this.values.value = state.values;
        this.interrupts.value = this.branch.value ? [] : state.interrupts;
        this.run.value = running?.run_id ?? this.replayed;
        this.items.value = this.merged(state.values, this.run.value !== null);
        this.failure.value = thread.status === "error" ? errorText(state.tasks.find((one) => one.error)?.error ?? (thread as Fields).error) || "The run failed." : "";
      });
      if (running && this.replayed !== running.run_id) this.replay(running.run_id);
    } catch (error) {
      this.read.value = true;
      this.error.value = asApiError(error);
    }
  }

  /** The stored items; while a run goes on, what it has shown after them stays. */
  private merged(values: Fields, running: boolean): Item[] {
    const stored = itemsOf(values, this.items.value);
    if (!running && !this.sending.value) return [...stored, ...this.unfinished];
    const ids = new Set(stored.map((item) => item.id));
    const live = this.items.value.slice(this.items.value.findLastIndex((item) => ids.has(item.id)) + 1);
    return [...stored, ...live];
  }

  private replay(run: string): void {
    if (this.disposed) return;
    this.closeRun();
    this.replayed = run;
    this.queue = [];
    this.items.value = withoutStreaming(this.items.value);
    this.closeRun = openStream(path`/threads/${this.id}/runs/${run}/stream`, {
      lastEventId: "-1",
      onEvent: (event) => this.push(event),
      onGap: () => undefined,
      onRefused: () => this.finish(),
      onEnd: () => this.finish(),
    });
  }

  private finish(): void {
    this.replayed = null;
    if (this.stopping.value) this.unfinished = settled(this.items.value.filter((item) => item.type === "model" && item.streaming));
    this.stopping.value = false;
    void this.load();
    void this.readBranches();
    void readQuestions();
    this.changed();
  }

  /** Events wait for the next frame, so that a fast model costs one drawing a frame. */
  private push(event: StreamEvent): void {
    this.queue.push(event);
    if (this.scheduled) return;
    this.scheduled = true;
    const flush = () => {
      this.scheduled = false;
      const events = this.queue;
      this.queue = [];
      batch(() => events.forEach((one) => this.take(one)));
    };
    document.hidden ? setTimeout(flush, 100) : requestAnimationFrame(flush);
  }

  private take({ event, data }: StreamEvent): void {
    if (event === "metadata") return this.takeMetadata(data);
    if (event === "messages") this.items.value = withMessage(this.items.value, data);
    else if (event === "custom") this.takeCustom(data);
    else if (event === "values" && data?.messages) this.items.value = this.merged(data, true); // a run that streams no more
    else if (event === "error") this.failure.value = String(data?.message ?? data?.error ?? "The run failed.");
    else if (event === "updates" && data?.__interrupt__) void readQuestions();
  }

  private takeMetadata(data: Fields): void {
    if (data.status === "run_done") {
      this.run.value = null;
      if (!this.replayed) this.finish();
    } else if (data.run_id) {
      this.run.value = data.run_id;
      this.failure.value = "";
      if (this.branch.value) this.showFrom(""); // what goes on is the thread's own state
    }
  }

  private takeCustom(data: Fields): void {
    if (data?.type !== "step") return;
    this.items.value = withStep(this.items.value, data as StepEvent);
    if (versionsOf(data.output).length > 0) this.changed();
  }

  /** Say that the artefact may have changed, at most a few times a second. */
  changed(): void {
    if (this.revisionTimer) return;
    this.revisionTimer = window.setTimeout(() => {
      this.revisionTimer = 0;
      this.revision.value += 1;
    }, REVISION_MS);
  }

  /** Start a run; true if the server took it. */
  private async start(body: Fields): Promise<boolean> {
    this.sending.value = true;
    this.unfinished = [];
    this.failure.value = "";
    // Somebody may write before the thread is read.
    this.workflow.value ||= (await attempt(api.thread(this.id)))?.metadata.graph_id ?? "";
    const from = this.branch.value ? { checkpoint_id: this.branch.value } : {};
    const run = await attempt(api.startRun(this.id, { assistant_id: this.workflow.value, ...from, ...body }));
    if (run) {
      batch(() => {
        this.branch.value = "";
        this.run.value = run.run_id;
        this.interrupts.value = [];
      });
      if (this.replayed !== run.run_id) this.replay(run.run_id);
    }
    this.sending.value = false;
    return run !== undefined;
  }

  /** Ask before a message that ends a waiting plan; true where there is none. */
  private agreed(): Promise<boolean> {
    const steps = stepsLeft(this.interrupts.value[0]?.value);
    if (steps === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      this.asking.value = { steps, decide: (agreed) => { this.asking.value = null; resolve(agreed); } };
    });
  }

  /** Send a message, or the words that answer a question which takes words. */
  async send(text: string, context: Fields = {}): Promise<boolean> {
    const waiting = this.interrupts.value[0];
    if (waiting && takesWords(waiting.value)) return this.answer(text);
    if (!(await this.agreed())) return false;
    const id = newId();
    const before = this.items.value;
    this.items.value = [...before, { type: "person", id, text }];
    const selection = this.workflow.value === "page_builder" ? { selected_element_id: this.selected.value } : {};
    const ok = await this.start({ input: { messages: [{ role: "user", content: text, id }], ...selection }, context });
    if (!ok) this.items.value = before;
    return ok;
  }

  /** Start a run of a graph that takes no messages. */
  begin(input: Fields): Promise<boolean> {
    this.input.value = input;
    return this.start({ input });
  }

  /** Answer the question with this id, or the first one on the screen. */
  async answer(answer: unknown, id = ""): Promise<boolean> {
    // Always by its id: the answer is to the question on the screen, not to whatever waits by now.
    const shown = id || this.interrupts.value[0]?.id;
    const ok = await this.start({ command: { resume: shown ? { [shown]: answer } : answer } });
    if (!ok) void this.load(); // somebody else may have answered
    void readQuestions();
    return ok;
  }

  /** Page back to the newest checkpoint without this message; null if none is kept. */
  private async checkpointBefore(id: string): Promise<string | null> {
    const history: ThreadState[] = [];
    for (;;) {
      const last = history[history.length - 1]?.checkpoint?.checkpoint_id ?? null;
      const page = await api.history(this.id, HISTORY_PAGE, last);
      history.push(...page);
      const found = checkpointBefore(history, id, this.branch.value);
      if (found !== undefined) return found;
      if (page.length < HISTORY_PAGE) return null;
    }
  }

  private async readBranches(): Promise<void> {
    const begins = await api.begins(this.id).catch(() => []); // without them the newest branch is shown alone
    this.branches.value = branchesOf(begins);
    const given = begins[0]?.tasks[0]?.result;
    if (given && !given.messages) this.input.value = given;
  }

  /** Show the conversation as it went on after another message than the one at this place. */
  async show(branch: Branch, all: Branch[]): Promise<void> {
    const history = await attempt(api.checkpoints(this.id));
    if (!history) return;
    const newest = newestOf(branch, all, history);
    if (newest) this.showFrom(newest === history[0]?.checkpoint?.checkpoint_id ? "" : newest);
    else notify("What came after this message is not among the newest states.", { remedy: "The inspector has the whole history.", bad: true });
  }

  /** Show the conversation up to this checkpoint, or the thread's own state. */
  showFrom(checkpoint: string): void {
    this.branch.value = checkpoint;
    this.unfinished = [];
    void this.load();
  }

  async stop(): Promise<void> {
    const run = this.run.value;
    if (!run) return;
    this.stopping.value = true;
    if ((await attempt(api.cancelRun(this.id, run))) === undefined) this.stopping.value = false;
  }

  /** Send a message again in other words, from the point before it; what came after is left behind in the history. */
  async resend(id: string, text: string): Promise<boolean> {
    if (!(await this.agreed())) return false;
    const checkpoint = await attempt(this.checkpointBefore(id));
    if (checkpoint === undefined) return false;
    if (!checkpoint) {
      notify("The point before this message is not kept any more.", { remedy: "Send the new words as another message.", bad: true });
      return false;
    }
    const message = { role: "user", content: text, id: newId() };
    const before = this.items.value;
    const at = before.findIndex((item) => item.id === id);
    this.items.value = [...before.slice(0, at), { type: "person", id: message.id, text }];
    const ok = await this.start({ input: { messages: [message] }, checkpoint_id: checkpoint });
    if (!ok) this.items.value = before;
    return ok;
  }
}
