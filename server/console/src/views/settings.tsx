import { Soon } from "./soon.tsx";

export function Settings() {
  return <Soon title="Settings" icon="settings">Use callsheet doctor and callsheet keys in the terminal until then.</Soon>;
}
