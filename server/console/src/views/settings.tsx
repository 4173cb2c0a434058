// Who is signed in, which model answers, its use and cost, the tools with their limits, and the health of the server.
import { get } from "../api.ts";
import { count, seconds, usd, words } from "../format.ts";
import { endSession, session } from "../store.ts";
import { BarChart } from "../ui/chart.tsx";
import { Failure, Loading } from "../ui/states.tsx";
import { DataTable } from "../ui/table.tsx";
import { useRead } from "../ui/use_read.ts";

interface Health { status: string; version: string; storage: { ok: boolean; place?: string; server?: string; latencyMs?: number }; provider: { name: string; reason: string }; tools?: { available: number; resting: Record<string, unknown> } }
interface Use { modelCalls: number; inputTokens: number; cachedTokens: number; outputTokens: number; costUsd: number | null }
interface Usage { rows: (Use & { day: string | null; model: string })[]; total: Use }
interface Tool {
  name: string; description: string; domain: string; effect: string; safetyLevel: string; allowed: boolean; available: boolean; internal: boolean;
  breaker: { state: string }; limits: { timeoutSeconds: number; calls: number; windowSeconds: number };
}

function UsageSection() {
  const [usage, error] = useRead(() => get<Usage>("/api/usage"), []);
  if (!usage) return error ? <Failure error={error} /> : <Loading rows={1} />;
  if (usage.rows.length === 0) return <p class="muted">No paid model has answered in the last 30 days. The offline model is free and not counted.</p>;
  const days = new Map<string, number>();
  for (const row of usage.rows) days.set(row.day ?? "", (days.get(row.day ?? "") ?? 0) + (row.costUsd ?? 0));
  return (
    <>
      <p><strong class="num">{usd(usage.total.costUsd)}</strong> for {count(usage.total.modelCalls, "call")} in the last 30 days.</p>
      <BarChart title="Cost by day in US dollars" points={[...days].map(([label, value]) => ({ label, value }))} format={usd} />
      <DataTable caption="Use by day and model" rows={usage.rows} keyOf={(row) => `${row.day}${row.model}`} columns={[
        { name: "day", title: "Day", cell: (row) => row.day, value: (row) => row.day },
        { name: "model", title: "Model", cell: (row) => row.model, value: (row) => row.model },
        { name: "calls", title: "Calls", cell: (row) => row.modelCalls, value: (row) => row.modelCalls, number: true },
        { name: "input", title: "Tokens in", cell: (row) => row.inputTokens.toLocaleString("en"), value: (row) => row.inputTokens, number: true },
        { name: "output", title: "Tokens out", cell: (row) => row.outputTokens.toLocaleString("en"), value: (row) => row.outputTokens, number: true },
        { name: "cost", title: "Cost", cell: (row) => (row.costUsd === null ? "unknown" : usd(row.costUsd)), value: (row) => row.costUsd, number: true },
      ]} />
    </>
  );
}

function ToolSection() {
  const [reply, error] = useRead(() => get<{ tools: Tool[] }>("/api/tools"), []);
  if (!reply) return error ? <Failure error={error} /> : <Loading rows={2} />;
  if (reply.tools.length === 0) return <p class="muted">The graphs of this server have none of Callsheet's tools.</p>;
  const state = (one: Tool) => (!one.allowed ? "not allowed" : one.breaker.state !== "closed" ? "paused after failures" : one.available ? "available" : "not set up");
  return (
    <DataTable caption="Tools" rows={reply.tools.filter((one) => !one.internal)} keyOf={(row) => row.domain + row.name} columns={[
      { name: "name", title: "Tool", value: (row) => row.name, cell: (row) => <details><summary>{words(row.name)}</summary><p class="help">{row.description}</p></details> },
      { name: "domain", title: "For", value: (row) => row.domain, cell: (row) => row.domain },
      { name: "effect", title: "Effect", value: (row) => row.effect, cell: (row) => (row.safetyLevel === "safe" ? row.effect : `${row.effect}, can delete`) },
      { name: "limit", title: "At most", value: (row) => row.limits.calls / row.limits.windowSeconds, cell: (row) => `${count(row.limits.calls, "call")} in ${seconds(row.limits.windowSeconds)}`, number: true },
      { name: "time", title: "Time limit", value: (row) => row.limits.timeoutSeconds, cell: (row) => seconds(row.limits.timeoutSeconds), number: true },
      { name: "state", title: "State", value: state, cell: state },
    ]} />
  );
}

function HealthSection() {
  const [health, error] = useRead(() => get<Health>("/health"), []);
  if (!health) return error ? <Failure error={error} /> : <Loading rows={1} />;
  const resting = Object.keys(health.tools?.resting ?? {});
  return (
    <dl class="value">
      <div><dt>Server</dt><dd><span class={`pill ${health.status === "ok" ? "ok" : "bad"}`}><span class="dot" aria-hidden="true" />{health.status}</span> version {health.version}</dd></div>
      <div><dt>Storage</dt><dd>{health.storage.server ?? (health.storage.ok ? "ok" : "away")}{health.storage.place ? `, ${health.storage.place}` : ""}{health.storage.latencyMs !== undefined ? `, ${health.storage.latencyMs.toFixed(1)} ms` : ""}</dd></div>
      <div><dt>Model</dt><dd><strong>{health.provider.name}</strong>: {health.provider.reason}</dd></div>
      {health.tools && <div><dt>Tools</dt><dd>{health.tools.available} available{resting.length > 0 ? `; paused after failures: ${resting.join(", ")}` : ""}</dd></div>}
    </dl>
  );
}

export function Settings() {
  const known = session.value;
  return (
    <div class="page">
      <h1>Settings</h1>
      <section class="part">
        <h2>You</h2>
        {known?.auth === "none"
          ? <p>The server asks for no key, so everybody who reaches it shares these data. <code>CALLSHEET_AUTH=keys</code> and <code>callsheet keys create</code> change that.</p>
          : <p>Signed in as <strong>{known?.user?.name ?? known?.user?.owner}</strong>, who may {known?.user?.permissions.join(", ")}. Keys are made and revoked with <code>callsheet keys</code>.</p>}
        {known?.auth === "keys" && <p><button type="button" class="button" onClick={() => void endSession()}>Sign out</button></p>}
      </section>
      <section class="part"><h2>Health</h2><HealthSection /><p class="help"><code>callsheet doctor</code> checks the whole installation and says what to do.</p></section>
      <section class="part"><h2>Use and cost</h2><UsageSection /></section>
      <section class="part"><h2>Tools and their limits</h2><ToolSection /></section>
    </div>
  );
}
