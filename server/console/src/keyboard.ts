// Shortcuts of the whole page. Rows are `[data-row]`; a row's buttons name their key in `data-key`.
import { signal } from "@preact/signals";
import { location, navigate } from "./router.ts";

export const SHORTCUTS: [string, string][] = [
  ["/", "Search"],
  ["n", "Start something new"],
  ["m", "Write a message"],
  ["j", "Next in the list"],
  ["k", "Previous in the list"],
  ["a", "Approve the selected question"],
  ["e", "Edit before approving"],
  ["r", "Reject it"],
  ["g", "Go to Home"],
  ["?", "Show this list"],
  ["Esc", "Close, or leave a field"],
];

export const shortcutsShown = signal(false);

function typing(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return Boolean(element?.closest?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], dialog"));
}

function move(step: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")].filter((row) => row.offsetParent !== null);
  const current = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[Math.min(Math.max(current + step, 0), rows.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

function focusOn(selector: string): boolean {
  const element = document.querySelector<HTMLElement>(selector);
  element?.focus();
  element?.scrollIntoView({ block: "nearest" });
  return element !== null;
}

/** Press the button for `key` in the selected row; in the only question if none is selected. */
function press(key: string): void {
  const row = document.activeElement?.closest("[data-row]");
  const scope = row?.querySelector(`[data-key="${key}"]`) ? row : document;
  const buttons = [...scope.querySelectorAll<HTMLButtonElement>(`[data-key="${key}"]`)];
  if (scope !== document || buttons.length === 1) buttons[0]?.click();
  else move(1);
}

function goHomeThen(selector: string): void {
  if (focusOn(selector)) return;
  navigate("/");
  requestAnimationFrame(() => requestAnimationFrame(() => focusOn(selector)));
}

export function startKeyboard(): void {
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && typing(event.target)) return (event.target as HTMLElement).blur();
    if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented || typing(event.target)) return undefined;
    const actions: Record<string, () => void> = {
      "/": () => goHomeThen("[data-search]"),
      n: () => goHomeThen("[data-new]"),
      m: () => { if (!focusOn("[data-message]")) goHomeThen("[data-new]"); },
      g: () => { if (location.value.path !== "/") navigate("/"); },
      j: () => move(1),
      k: () => move(-1),
      a: () => press("a"),
      e: () => press("e"),
      r: () => press("r"),
      "?": () => { shortcutsShown.value = true; },
    };
    const action = actions[event.key];
    if (!action) return undefined;
    event.preventDefault();
    return action();
  });
}

/** A `ref` that focuses what appears: one function, since a new one would take the focus at each rendering. */
export function takeFocus(box: HTMLElement | null): void {
  box?.focus();
}
