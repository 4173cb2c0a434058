// The answer to a question about campaigns: its statements with their proof, the figures as a chart, the campaigns.
import { useState } from "preact/hooks";
import { get, path } from "../api.ts";
import { count, words } from "../format.ts";
import type { Fields } from "../types.ts";
import { CampaignCard } from "../ui/campaign_card.tsx";
import { BarChart, LineChart } from "../ui/chart.tsx";
import { Icon } from "../ui/icon.tsx";
import { Empty } from "../ui/states.tsx";
import { DataTable } from "../ui/table.tsx";
import { useRead } from "../ui/use_read.ts";
import { currencyWords, filterPairs, isOverTime, statementsOf, valueText, type Campaign, type Group } from "./campaign_data.ts";
import type { PanelProps } from "./panel.ts";

const METRICS = ["count", "spend", "volume"] as const;

function Aggregation({ groupBy, groups, currencies }: { groupBy: string; groups: Group[]; currencies?: string[] }) {
  const [metric, setMetric] = useState<(typeof METRICS)[number]>("count");
  const points = groups.map((one) => ({ label: one.value || "none", value: one[metric] ?? 0 }));
  const { unit, warning } = currencyWords(currencies);
  const named = (one: (typeof METRICS)[number]) => (one === "spend" && unit ? `Spend in ${unit}` : words(one));
  const title = `${named(metric)} by ${words(groupBy).toLowerCase()}`;
  const offered = METRICS.filter((one) => groups.some((group) => (group[one] ?? 0) > 0));
  return (
    <section class="part">
      <header class="part-head">
        <h3>{title}</h3>
        <div class="segmented end" role="group" aria-label="Figure">
          {offered.map((one) => <button key={one} type="button" aria-pressed={metric === one} onClick={() => setMetric(one)}>{words(one)}</button>)}
        </div>
      </header>
      {isOverTime(groupBy) && points.length > 2 ? <LineChart title={title} points={points} /> : <BarChart title={title} points={points} />}
      {metric === "spend" && warning && <p class="late">{warning}</p>}
      <details class="fold"><summary>As a table</summary>
        {warning && offered.includes("spend") && <p class="late">{warning}</p>}
        <DataTable caption={`Figures by ${groupBy}`} rows={groups} keyOf={(row) => row.value} columns={[
          { name: "value", title: words(groupBy), value: (row) => row.value, cell: (row) => row.value || "none" },
          ...offered.map((one) => ({ name: one, title: named(one), value: (row: Group) => row[one], cell: (row: Group) => row[one]?.toLocaleString("en", { minimumFractionDigits: one === "spend" ? 2 : 0, maximumFractionDigits: 2 }) ?? "", number: true })),
        ]} />
      </details>
    </section>
  );
}

function show(id: string): void {
  const card = document.getElementById(`campaign-${id}`);
  card?.scrollIntoView({ block: "center" });
  card?.focus({ preventScroll: true });
}

export function CampaignsPanel(props: PanelProps) {
  const [marked, mark] = useState<string[]>([]);
  const { result, aggregation, detected_filters: filters } = props.values as { result?: { total: number; campaigns: Campaign[] } | null; aggregation?: { groupBy: string; groups: Group[]; currencies?: string[] } | null; detected_filters?: Fields };
  const [library] = useRead(() => get<{ notes: string[] }>("/api/campaigns?limit=1"), [props.revision]);
  const statements = statementsOf(props.messages);
  const campaigns = result?.campaigns ?? [];
  const known = new Set(campaigns.map((one) => one.id));
  const pairs = filterPairs(filters ?? {});
  if (!result && statements.length === 0) return <Empty icon="chart" title="No answer yet">Ask about the ad library; the campaigns that prove each statement appear here.</Empty>;
  return (
    <div class="ad">
      {library?.notes.map((one) => <p key={one} class="help">{one}</p>)}
      {pairs.length > 0 && (
        <p class="tags">
          <span class="help">Filters</span>
          {pairs.map(([name, value]) => <a key={name + value} class="tag link" href={`/campaigns?${new URLSearchParams(pairs).toString()}`} title="Open in the library">{words(name)}: {valueText(value)}</a>)}
        </p>
      )}
      {statements.length > 0 && (
        <section class="part">
          <h3>What was answered, and why it is true</h3>
          <ol class="statements">
            {statements.map((one, i) => (
              <li key={i}>
                <p>{one.text}</p>
                <p class="tags">
                  {one.campaigns.length === 0 && <span class="help">Counted by the server{aggregation ? "; see the figures" : ""}</span>}
                  {one.campaigns.map((id) => known.has(id)
                    ? <button key={id} type="button" class="tag link" onClick={() => { mark(one.campaigns); show(id); }}>{id}</button>
                    : <span key={id} class="tag">{id}</span>)}
                </p>
              </li>
            ))}
          </ol>
        </section>
      )}
      {aggregation && aggregation.groups.length > 0 && <Aggregation {...aggregation} />}
      {campaigns.length > 0 && result && (
        <section class="part">
          <header class="part-head">
            <h3>{campaigns.length < result.total ? `${campaigns.length} of ${count(result.total, "campaign")}` : count(result.total, "campaign")}</h3>
            <a class="button small end" download href={path`/api/campaigns/export?conversationId=${props.thread}`}><Icon name="down" size={16} />CSV of all</a>
          </header>
          <ul class="campaigns">{campaigns.map((one) => <CampaignCard key={one.id} campaign={one} marked={marked.includes(one.id)} />)}</ul>
        </section>
      )}
    </div>
  );
}
