import { Soon } from "./soon.tsx";

export function Campaigns() {
  return <Soon title="Campaigns" icon="chart">Ask about campaigns from Home, or use callsheet campaigns in the terminal.</Soon>;
}
