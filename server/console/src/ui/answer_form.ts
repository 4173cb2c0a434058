// The form of a question, loaded when one waits, and what somebody has put into it.
import type { ComponentType } from "preact";
import { useState } from "preact/hooks";
import { later } from "./later.tsx";

export interface AnswerProps {
  value: any;
  busy: boolean;
  /** What is put into the form stays while the question of this thread is drawn anew, or asked again. */
  thread: string;
  onAnswer: (answer: unknown) => void;
}

export const InterruptForm: ComponentType<AnswerProps> = later(() => import("./interrupt_form.tsx").then((one) => one.InterruptForm));

const kept = new Map<string, unknown>();

/** A state that outlives its form; `key` names the question. */
export function useKept<T>(key: string, first: T): [T, (value: T) => void] {
  const [value, set] = useState<T>(() => (kept.has(key) ? (kept.get(key) as T) : first));
  return [value, (next) => { kept.set(key, next); set(next); }];
}
