// What a panel is given; see the top of app.tsx.
import type { ComponentType } from "preact";
import type { Fields, WireMessage } from "../types.ts";

export interface PanelProps {
  kind: string;
  /** Id of the artefact. */
  id: string;
  thread: string;
  /** Grows with each change of the thread or the artefact. */
  revision: number;
  /** A run goes on: changes by hand may meet its own. */
  busy: boolean;
  /** The thread's state, without its messages. */
  values: Fields;
  messages: WireMessage[];
  /** Send a request in the person's words; true if the server took it. */
  say: (text: string) => Promise<boolean>;
  /** Name the part that "this" means in the next message; null for none. */
  select: (id: string | null) => void;
  /** Say that the panel has changed the artefact. */
  changed: () => void;
}

export interface PanelEntry {
  title: string;
  view: ComponentType<PanelProps>;
  /** Address of a picture of a version; null for a stream that has none. */
  picture?: (id: string, stream: string, version: string) => string | null;
}
