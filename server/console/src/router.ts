// Routes over the history API. A link in the page changes the view without a load.
import { signal } from "@preact/signals";

export const location = signal({ path: window.location.pathname, query: new URLSearchParams(window.location.search) });

function update(): void {
  location.value = { path: window.location.pathname, query: new URLSearchParams(window.location.search) };
}

export function navigate(url: string, replace = false): void {
  history[replace ? "replaceState" : "pushState"](null, "", url);
  update();
}

/** Set or remove one parameter of the address, as a step of the history only if `push`. */
export function setQuery(values: Record<string, string | null>, push = false): void {
  const query = new URLSearchParams(window.location.search);
  for (const [name, value] of Object.entries(values)) value === null ? query.delete(name) : query.set(name, value);
  const text = query.toString();
  navigate(window.location.pathname + (text ? `?${text}` : ""), !push);
}

/** Match `/c/:thread` against a path: its parameters, or null. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const names = pattern.split("/");
  const parts = path.replace(/(.)\/$/, "$1").split("/");
  if (names.length !== parts.length) return null;
  const params: Record<string, string> = {};
  for (const [i, name] of names.entries()) {
    const part = parts[i] ?? "";
    if (name.startsWith(":")) {
      try {
        params[name.slice(1)] = decodeURIComponent(part);
      } catch {
        return null;
      }
    } else if (name !== part) return null;
  }
  return params;
}

const PAGES = ["/", "/artefacts", "/campaigns", "/settings"];
const OWN = /^\/(c|inspect)\/[^/]+$/;

export function startRouter(): void {
  addEventListener("popstate", update);
  document.addEventListener("click", (event) => {
    const link = (event.target as Element | null)?.closest?.("a");
    if (!link || event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target || link.hasAttribute("download")) return;
    if (link.origin !== window.location.origin) return;
    if (!PAGES.includes(link.pathname) && !OWN.test(link.pathname)) return;
    if (link.hash && link.pathname === window.location.pathname) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
    window.scrollTo(0, 0);
  });
}
