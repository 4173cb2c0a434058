// Change a field of the state at a checkpoint, and go on from there: the thread keeps what came after in its history.
import { useState } from "preact/hooks";
import { path, post } from "../api.ts";
import { navigate } from "../router.ts";
import type { Fields, ThreadState } from "../types.ts";
import { Dialog } from "../ui/dialog.tsx";
import { Failure } from "../ui/states.tsx";
import { useCall } from "../ui/use_read.ts";

export function ForkDialog({ thread, state, onClose }: { thread: string; state: ThreadState; onClose: () => void }) {
  const names = Object.keys(state.values).filter((one) => one !== "messages");
  const [name, choose] = useState(names[0] ?? "");
  const [text, setText] = useState(JSON.stringify(state.values[name] ?? null, null, 2));
  const [broken, setBroken] = useState("");
  const [error, call, busy] = useCall();
  const pick = (next: string) => { choose(next); setText(JSON.stringify(state.values[next] ?? null, null, 2)); setBroken(""); };
  const fork = async (values: Fields | null) => {
    const { checkpoint } = values ? await post<Pick<ThreadState, "checkpoint">>(path`/threads/${thread}/state`, { values, checkpoint: state.checkpoint }) : state;
    await post(path`/threads/${thread}/runs`, { assistant_id: state.metadata?.graph_id ?? "", input: null, checkpoint, stream_resumable: true, stream_mode: ["messages-tuple", "custom", "updates"] });
  };
  const go = (values: Fields | null) => void call(fork(values), () => navigate(path`/c/${thread}`));
  const change = () => {
    try { go({ [name]: JSON.parse(text) }); } catch (failure) { setBroken((failure as Error).message); }
  };
  return (
    <Dialog title="Continue from this checkpoint" onClose={onClose} wide>
      <p>The graph continues from here{state.next.length > 0 ? `, at ${state.next.join(", ")}` : ""}. What came after stays in the history of the thread; what its tools have made stays too.</p>
      {names.length > 0 && (
        <>
          <label class="field"><span class="label">Field to change first</span>
            <select value={name} onChange={(event) => pick(event.currentTarget.value)}>{names.map((one) => <option key={one}>{one}</option>)}</select>
          </label>
          <label class="field"><span class="label">Its value as JSON</span>
            <textarea class="mono" rows={10} spellcheck={false} value={text} onInput={(event) => { setText(event.currentTarget.value); setBroken(""); }} />
            <span class="field-error" role="alert">{broken}</span>
          </label>
        </>
      )}
      {error && <Failure error={error} />}
      <div class="actions end">
        <button type="button" class="button" disabled={busy} onClick={() => go(null)}>Continue unchanged</button>
        <button type="button" class="button primary" disabled={busy || names.length === 0} onClick={change}>Change it and continue</button>
      </div>
    </Dialog>
  );
}
