// What a person may do with a version, by kind: each kind has routes of its own.
import { path, post } from "../api.ts";

export interface VersionAction {
  label: string;
  done: string;
  run: () => Promise<unknown>;
}

export function versionActions(kind: string, id: string, stream: string, version: string, state: { active: boolean; newest: boolean }): VersionAction[] {
  const activate: VersionAction = { label: "Activate", done: `${version} is active`, run: () => Promise.resolve() };
  const restore: VersionAction = { label: "Restore", done: `${version} is restored as a new version`, run: () => Promise.resolve() };
  const actions: VersionAction[] = [];
  switch (kind) {
    case "ad":
      if (!state.active) actions.push({ ...activate, run: () => post(path`/api/ads/${id}/${stream}/${version}/activate`) });
      if (!state.newest) actions.push({ ...restore, run: () => post(path`/api/ads/${id}/${stream}/${version}/clone`) });
      return actions;
    case "page":
      if (stream !== "page") return [];
      if (!state.active) actions.push({ ...activate, run: () => post(path`/api/pages/${id}/versions/${version}/activate`) });
      if (!state.newest) actions.push({ ...restore, run: () => post(path`/api/pages/${id}/versions/${version}/restore`) });
      return actions;
    case "lesson":
      if (stream !== "narration" || state.newest) return [];
      return [{ ...restore, run: () => post(path`/api/agent-create/session/narration?sessionId=${id}`, { action: "restore", version }) }];
    case "video":
      if (state.newest || !stream.startsWith("scene-")) return [];
      return [{ ...restore, run: () => post(path`/api/projects/${id}/scenes/${stream}/versions/${version}/restore`) }];
    default:
      return [];
  }
}
