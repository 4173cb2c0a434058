// The import of campaigns: a file, what its columns mean, and what was refused or left out.
import { useState } from "preact/hooks";
import { request } from "../api.ts";
import { count, words } from "../format.ts";
import { Dialog } from "../ui/dialog.tsx";
import { Failure } from "../ui/states.tsx";
import { useCall } from "../ui/use_read.ts";

interface Line { line?: number; row?: number; id?: string; reason?: string; error?: string; [name: string]: unknown }
interface Report {
  imported: number; new: number; refused: Line[]; refusedCount: number; warnings: Line[]; warningCount: number;
  notes: string[]; columns: Record<string, string>; ignoredColumns: string[];
}

/** Fields that a heading may be given, the usual ones first. */
const FIELDS = [
  "company", "brand", "channel", "primary_product", "offer", "campaign_text", "full_campaign_text", "key_value_props",
  "incentives", "imagery_sentiment", "imagery_visual_style", "capture_date", "spend", "currency", "volume", "id",
];

function lineText(line: Line): string {
  const place = line.line ?? line.row;
  const words = line.reason ?? line.error ?? Object.entries(line).filter(([name]) => name !== "line" && name !== "row").map(([, value]) => String(value)).join(" · ");
  return place === undefined ? String(words) : `Line ${place}: ${words}`;
}

function Lines({ title, lines, total }: { title: string; lines: Line[]; total: number }) {
  if (total === 0) return null;
  return (
    <details class="fold" open={total <= 20}>
      <summary>{title}: {count(total, "line")}</summary>
      <ul class="report">{lines.slice(0, 200).map((one, i) => <li key={i}>{lineText(one)}</li>)}</ul>
      {total > 200 && <p class="help">The first 200 are shown.</p>}
    </details>
  );
}

export function ImportDialog({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const [file, setFile] = useState<File | null>(null);
  const [mapping, setMapping] = useState<Record<string, string>>({});
  const [whole, setWhole] = useState(false);
  const [report, setReport] = useState<Report | null>(null);
  const [error, call, busy] = useCall();
  const run = (event: Event) => {
    event.preventDefault();
    if (!file) return;
    const query = new URLSearchParams({ fileName: file.name, allOrNothing: String(whole) });
    if (Object.keys(mapping).length > 0) query.set("mapping", JSON.stringify(mapping));
    const headers = { "Content-Type": file.type || "application/octet-stream" };
    void call(request<Report>("POST", `/api/campaigns/import?${query}`, file, { headers }), (reply) => { setReport(reply); onDone(); });
  };
  const headings = report ? [...Object.keys(report.columns), ...report.ignoredColumns] : [];
  return (
    <Dialog title="Import campaigns" onClose={onClose} wide>
      <form class="answer" onSubmit={run}>
        <label class="field"><span class="label">File</span>
          <input type="file" required accept=".csv,.tsv,.txt,.json,.jsonl,.xlsx" onChange={(event) => { setFile(event.currentTarget.files?.[0] ?? null); setReport(null); setMapping({}); }} />
          <span class="help">A table as CSV or Excel (.xlsx), or a list as JSON. A campaign whose id is known already is updated. Rows that cannot be imported and values that are left out are listed afterwards.</span>
        </label>
        <label class="check small"><input type="checkbox" checked={whole} onChange={(event) => setWhole(event.currentTarget.checked)} />Import nothing if any row cannot be imported</label>
        {report && (
          <section class="answer" role="status">
            <p><strong class="num">{count(report.imported, "campaign")} imported</strong>, {report.new} of them new; {count(report.refusedCount, "row")} not imported.</p>
            <Lines title="Not imported" lines={report.refused} total={report.refusedCount} />
            <Lines title="Values left out" lines={report.warnings} total={report.warningCount} />
            {report.notes.length > 0 && <ul class="report" aria-label="Notes">{report.notes.map((one) => <li key={one}>{one}</li>)}</ul>}
            <details class="fold" open={report.ignoredColumns.length > 0 || report.refusedCount > 0}>
              <summary>Columns{report.ignoredColumns.length > 0 ? `: ${count(report.ignoredColumns.length, "column")} not imported` : ""}</summary>
              <div class="columns">
                {headings.map((heading) => (
                  <label key={heading} class="column"><span>{heading}</span>
                    <select value={mapping[heading] ?? report.columns[heading] ?? ""} onChange={(event) => setMapping({ ...mapping, [heading]: event.currentTarget.value })}>
                      <option value="">Leave out</option>
                      {FIELDS.map((one) => <option key={one} value={one}>{words(one)}</option>)}
                    </select>
                  </label>
                ))}
              </div>
            </details>
          </section>
        )}
        {error && <Failure error={error} />}
        <div class="actions end">
          <button type="button" class="button" onClick={onClose}>{report ? "Close" : "Cancel"}</button>
          <button type="submit" class="button primary" disabled={!file || busy}>{busy ? "Importing" : report ? "Import again with these columns" : "Import"}</button>
        </div>
      </form>
    </Dialog>
  );
}
