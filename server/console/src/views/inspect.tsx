import { Soon } from "./soon.tsx";

export function Inspect({ thread }: { thread: string }) {
  return <Soon title="Inspector" icon="bug">{`The state and the history of the thread are at /threads/${thread}/state and /history.`}</Soon>;
}
