// The ad library: filters, cards, export, and the import of a file with its columns.
import { useEffect, useMemo, useState } from "preact/hooks";
import { get, send } from "../api.ts";
import { count, words } from "../format.ts";
import { filterPairs, valueText, type Campaign } from "../panels/campaign_data.ts";
import { location, navigate } from "../router.ts";
import { attempt, mayWrite } from "../store.ts";
import type { Fields } from "../types.ts";
import { CampaignCard } from "../ui/campaign_card.tsx";
import { Icon } from "../ui/icon.tsx";
import { Empty, Failure, Loading } from "../ui/states.tsx";
import { useCall } from "../ui/use_read.ts";
import { ImportDialog } from "./campaign_import.tsx";

interface CampaignPage { campaigns: Campaign[]; total: number; offset: number; detectedFilters: Fields; notes: string[] }

const TEXTS: [name: string, label: string, example: string][] = [
  ["company", "Company", ""], ["channel", "Channel", "email, radio"], ["product", "Product", ""],
  ["value_prop", "Value", ""], ["sentiment", "Feeling", "premium"], ["date_range", "When", "last 6 months"],
];
const SORTS: [value: string, label: string][] = [["newest", "Newest"], ["spend", "Spend"], ["volume", "Volume"]];
const LIMIT = 24;

function Filters({ query }: { query: URLSearchParams }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    const next = new URLSearchParams();
    for (const [name, value] of fields) {
      const text = String(value).trim();
      if (!text || (name === "sort" && text === "newest")) continue;
      for (const one of name === "date_range" ? [text] : text.split(",")) if (one.trim()) next.append(name, one.trim());
    }
    navigate(`/campaigns?${next}`);
  };
  return (
    <form class="filters" key={query.toString()} onSubmit={submit} aria-label="Filters">
      {TEXTS.map(([name, label, example]) => (
        <label key={name} class="field"><span class="label">{label}</span><input name={name} type="text" placeholder={example} value={query.getAll(name).join(", ")} /></label>
      ))}
      <label class="field"><span class="label">Offer</span>
        <select name="has_offer" value={query.get("has_offer") ?? ""}><option value="">Any</option><option value="true">With an offer</option><option value="false">Without</option></select>
      </label>
      <label class="field"><span class="label">Order</span>
        <select name="sort" value={query.get("sort") ?? "newest"}>{SORTS.map(([value, label]) => <option key={value} value={value}>{label}</option>)}</select>
      </label>
      <div class="actions"><button type="submit" class="button primary">Show</button>{query.size > 0 && <a class="button quiet" href="/campaigns">Clear</a>}</div>
    </form>
  );
}

export function Campaigns() {
  const query = location.value.query;
  const filters = query.toString();
  // Drawn once for each address, so that a reply which arrives does not clear what somebody types.
  const form = useMemo(() => <Filters query={query} />, [filters]);
  const [page, setPage] = useState<CampaignPage | null>(null);
  const [error, call] = useCall();
  const [importing, open] = useState(false);
  const [reads, setReads] = useState(0);
  const read = (offset: number) => {
    const more = new URLSearchParams([...query, ["offset", String(offset)], ["limit", String(LIMIT)]]);
    return call(get<CampaignPage>(`/api/campaigns?${more}`), (reply) =>
      setPage((before) => (offset && before ? { ...reply, campaigns: [...before.campaigns, ...reply.campaigns] } : reply)));
  };
  useEffect(() => { setPage(null); void read(0); }, [filters, reads]);
  const pairs = page ? filterPairs(page.detectedFilters) : [];
  const exportAll = async () => {
    const reply = await attempt(send("GET", "/api/campaigns/export"));
    if (!reply) return;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await reply.blob());
    link.download = "campaigns.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <div class="page wide">
      <header class="page-head">
        <h1>Campaigns</h1>
        <div class="actions">
          <button type="button" class="button" onClick={() => void exportAll()}><Icon name="down" size={16} />Export all</button>
          {mayWrite.value && <button type="button" class="button primary" onClick={() => open(true)}><Icon name="plus" size={16} />Import</button>}
        </div>
      </header>
      {form}
      {error && <Failure error={error} onRetry={() => void read(0)} />}
      {page && (
        <p class="tags" role="status">
          <strong class="num">{count(page.total, "campaign")}</strong>
          {pairs.map(([name, value]) => <span key={name + value} class="tag">{words(name)}: {valueText(value)}</span>)}
          {page.notes.map((one) => <span key={one} class="help">{one}</span>)}
        </p>
      )}
      {page === null ? !error && <Loading label="Reading the library" />
        : page.campaigns.length === 0
          ? <Empty icon="chart" title="No campaign fits">{query.size > 0 ? <a href="/campaigns">Show all</a> : "Import a CSV, Excel or JSON file with one campaign in each row."}</Empty>
          : <ul class="campaigns wide">{page.campaigns.map((one) => <CampaignCard key={one.id} campaign={one} />)}</ul>}
      {page && page.campaigns.length < page.total && <button type="button" class="button" onClick={() => void read(page.campaigns.length)}>Show more</button>}
      {importing && <ImportDialog onClose={() => open(false)} onDone={() => setReads((number) => number + 1)} />}
    </div>
  );
}
