// What a person may do with a version, by kind: each kind has routes of its own.
import { path, post } from "../api.ts";

export interface VersionAction { label: string; done: string; run: () => Promise<unknown> }

export function versionActions(kind: string, id: string, stream: string, version: string, state: { active: boolean; newest: boolean }): VersionAction[] {
  const activate = (url: string) => (state.active ? [] : [{ label: "Activate", done: `${version} is active`, run: () => post(url) }]);
  const restore = (url: string, body = {}) => (state.newest ? [] : [{ label: "Restore", done: `${version} is restored as a new version`, run: () => post(url, body) }]);
  const [ofAd, ofPage] = [path`/api/ads/${id}/${stream}/${version}`, path`/api/pages/${id}/versions/${version}`];
  if (kind === "ad") return [...activate(`${ofAd}/activate`), ...restore(`${ofAd}/clone`)];
  if (kind === "page" && stream === "page") return [...activate(`${ofPage}/activate`), ...restore(`${ofPage}/restore`)];
  if (kind === "lesson" && stream === "narration") return restore(path`/api/agent-create/session/narration?sessionId=${id}`, { action: "restore", version });
  if (kind === "video" && stream.startsWith("scene-")) return restore(path`/api/projects/${id}/scenes/${stream}/versions/${version}/restore`);
  return [];
}
