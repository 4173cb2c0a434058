// The panels by kind of artefact, and the kind of artefact that each workflow makes.
import { session } from "../store.ts";
import type { Fields } from "../types.ts";
import { adPanel } from "./ad.tsx";
import { lessonPanel } from "./lesson.tsx";
import { pagePanel } from "./page.tsx";
import type { PanelEntry } from "./panel.ts";
import { videoPanel } from "./video.tsx";
import { later } from "../ui/later.tsx";

/** A null entry has no panel of its own. */
export const PANELS: Record<string, PanelEntry | null> = {
  ad: adPanel,
  campaigns: { title: "Answer", view: later(() => import("./campaigns.tsx").then((one) => one.CampaignsPanel)) },
  lesson: lessonPanel,
  page: pagePanel,
  video: videoPanel,
};

/** Kinds whose threads have no artefact with versions; their panel shows the thread's state. */
export const WITHOUT_VERSIONS = new Set(["campaigns"]);

const KINDS: Record<string, [kind: string, idField: string]> = {
  ad_creation: ["ad", "ad_id"],
  page_builder: ["page", "page_id"],
  fact_narration: ["lesson", ""],
  scene_edit: ["video", "project_id"],
  campaign_search: ["campaigns", ""],
};

/** True for a workflow that plans its steps and can show them first. */
export function plansSteps(workflow: string): boolean {
  return workflow in KINDS && workflow !== "campaign_search";
}

/** Kinds in the order in which lists show them. */
const LISTED_KINDS: [kind: string, plural: string][] = [["ad", "Ads"], ["page", "Pages"], ["lesson", "Lessons"], ["video", "Videos"], ["campaigns", "Campaign questions"]];

/** Those of them that a served workflow makes. */
export const servedKinds = () => LISTED_KINDS.filter(([kind]) => session.value?.workflows.some((one) => KINDS[one.name]?.[0] === kind));

/** The workflow of a kind whose threads are all that is kept of it; null for the others. */
export function threadsOf(kind: string): string | null {
  if (!WITHOUT_VERSIONS.has(kind)) return null;
  return Object.entries(KINDS).find(([, [own]]) => own === kind)?.[0] ?? null;
}

/** The artefact of a thread; null for a graph that the console does not know. */
export function artefactOf(workflow: string, thread: string, values: Fields): { kind: string; id: string } | null {
  const entry = KINDS[workflow];
  if (!entry) return null;
  const id = entry[1] ? values[entry[1]] : null;
  return { kind: entry[0], id: typeof id === "string" && id ? id : thread };
}
