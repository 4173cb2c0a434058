// What was checked beside its rules: one line that says how many are not met, and a table.
import { onPage } from "../api.ts";
import { count } from "../format.ts";
import { mayWrite } from "../store.ts";
import { Failure } from "./states.tsx";
import { useRead } from "./use_read.ts";

interface Check { rule: string; measured: string; limit?: string; verdict: "pass" | "warn" | "fail"; remedy: string; elements?: string[] }
interface Report { verdict: string; checks: Check[]; source?: string }

/** Names of fields without the marks that a terminal shows. */
const plain = (text: string) => text.replaceAll("`", "");

/** The rules; `onOpen` takes a part that breaks one, and the rule. */
export function Checks({ of, read, when, onOpen }: { of: string; read: () => Promise<Report>; when: unknown[]; onOpen?: (part: string, rule: string) => void }) {
  const [report, error] = useRead(read, when);
  if (error) return <Failure error={error} />;
  if (!report) return null;
  const { checks, source } = report;
  const failures = checks.filter((one) => one.verdict === "fail").length;
  const tone = failures > 0 ? "bad" : report.verdict === "warn" ? "wait" : "ok";
  const warnings = checks.filter((one) => one.verdict === "warn").length;
  const limits = checks.some((one) => one.limit);
  return (
    <details class="fold">
      <summary><span class={`pill ${tone}`}><span class="dot" aria-hidden="true" />{failures > 0 ? `${failures} of ${checks.length} rules of ${of} not met` : `Rules of ${of} met${warnings > 0 ? `, with ${count(warnings, "warning")}` : ""}`}</span></summary>
      <table class="preflight">
        <caption class="sr-only">{of}{source && `: ${source}`}</caption>
        <thead><tr><th>Rule</th><th>Measured</th>{limits && <th>Limit</th>}<th>Verdict</th></tr></thead>
        <tbody>
          {checks.map((one) => (
            <tr key={one.rule} class={one.verdict}><td>{one.rule}</td><td>{plain(one.measured)}</td>{limits && <td>{one.limit}</td>}<td>{one.verdict}{one.remedy && <span class="help"> {plain(onPage(one.remedy))}</span>}
              {onOpen && mayWrite.value && one.elements?.map((part) => <button key={part} type="button" class="tag link" onClick={() => onOpen(part, one.rule)}>Edit {part}</button>)}
            </td></tr>
          ))}
        </tbody>
      </table>
      {source && <p class="help">{source}</p>}
    </details>
  );
}
