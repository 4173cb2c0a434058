import type { PanelEntry } from "./panel.ts";

/** Null until there is a panel: the pane then shows the versions, or the graph's state. */
export const lessonPanel: PanelEntry | null = null;
