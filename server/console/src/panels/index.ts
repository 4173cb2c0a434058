// The panels by kind of artefact, and the kind of artefact that each workflow makes.
import type { Fields } from "../types.ts";
import type { PanelEntry } from "./panel.ts";

export const PANELS: Record<string, PanelEntry> = {};

const KINDS: Record<string, [kind: string, idField: string]> = {
  ad_creation: ["ad", "ad_id"],
  page_builder: ["page", "page_id"],
  fact_narration: ["lesson", ""],
  scene_edit: ["video", "project_id"],
};

/** Kinds in the order in which lists show them. */
export const LISTED_KINDS: [kind: string, plural: string][] = [["ad", "Ads"], ["page", "Pages"], ["lesson", "Lessons"], ["video", "Videos"]];

/** The artefact of a thread; null for a graph that makes none. */
export function artefactOf(workflow: string, thread: string, values: Fields): { kind: string; id: string } | null {
  const entry = KINDS[workflow];
  if (!entry) return null;
  const id = entry[1] ? values[entry[1]] : null;
  return { kind: entry[0], id: typeof id === "string" && id ? id : thread };
}
