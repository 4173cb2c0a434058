// Line icons on a grid of 20. Decorative: a control that has only an icon carries its own label.
const PATHS: Record<string, string> = {
  home: "M3 9.5 10 4l7 5.5V16a1 1 0 0 1-1 1h-3.5v-4.5h-5V17H4a1 1 0 0 1-1-1z",
  layers: "m10 3 7 3.5-7 3.5-7-3.5zM3 10l7 3.5 7-3.5M3 13.5 10 17l7-3.5",
  settings: "M4 6h7m4 0h1M4 14h1m4 0h7M13 4v4M7 12v4",
  plus: "M10 4v12M4 10h12",
  search: "M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11ZM13 13l4 4",
  wave: "M3 8.5v3M6.5 5.5v9M10 3.5v13M13.5 6.5v7M17 8.5v3",
  page: "M3.5 4h13v12h-13zM3.5 7.5h13M6 11h4M6 13.5h6",
  book: "M10 5.5C8 4 5.5 4 3 4.5V16c2.5-.5 5-.5 7 1 2-1.5 4.5-1.5 7-1V4.500C14.5 4 12 4 10 5.500zM10 5.500V17",
  film: "M3 5h14v10H3zM6.5 5v10M13.5 5v10M3 10h3.500M13.5 10H17",
  chart: "M4 16V9M8.5 16V4M13 16v-5M17 16H3",
  graph: "M5 7.500a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM15 12a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM5 16.500a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM5 7.500v5M7 5.500c3 0 4.5 1 6 3M7 14.500c3 0 4.5-1 6-3",
  stop: "M6 6h8v8H6z",
  send: "M10 16V4.500M5.5 9 10 4.5 14.5 9",
  edit: "m4 16 .8-3.500L13 4.300a1.2 1.2 0 0 1 1.7 0l1 1a1.2 1.2 0 0 1 0 1.700L7.5 15.200z",
  check: "m4.5 10.5 3.5 3.5 7.5-8",
  close: "m5.5 5.5 9 9m0-9-9 9",
  chevron: "m7.5 5 5 5-5 5",
  pause: "M7 5v10M13 5v10",
  play: "M6.5 4.500v11l9-5.500z",
  retry: "M15.5 7A6 6 0 1 0 16 11M16 3.500V7h-3.5",
  skip: "M5 5l6 5-6 5zM14.5 5v10",
  up: "m5 12 5-5 5 5",
  under: "m5 8 5 5 5-5",
  undo: "M7 5 3.5 8.5 7 12M3.5 8.500H12a4 4 0 0 1 0 8H8.5",
  bug: "M4 5h12v10H4zM7 8.5 9 10l-2 1.500M11 12h2.5",
  clock: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM10 6v4l2.5 2",
  down: "M10 4v9M6 9.500l4 4 4-4M4 16.500h12",
  trash: "M4 6h12M8 6V4h4v2M6 6l.6 10.500h6.800L14 6",
  person: "M10 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM4.5 16.500c.5-3 2.8-4.5 5.5-4.500s5 1.5 5.5 4.5",
  lock: "M5.5 9h9v7h-9zM7.5 9V6.500a2.5 2.5 0 0 1 5 0V9",
  unlock: "M5.5 9h9v7h-9zM7.5 9V6.500a2.5 2.5 0 0 1 4.800-1",
};

export function Icon({ name, size = 20 }: { name: string; size?: number }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" width={size} height={size} fill="none" stroke="currentColor"
      stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">
      <path d={PATHS[name] ?? PATHS.graph} />
    </svg>
  );
}

const KIND_ICONS: Record<string, string> = {
  ad: "wave", page: "page", lesson: "book", video: "film", campaigns: "chart",
  ad_creation: "wave", page_builder: "page", fact_narration: "book", scene_edit: "film", campaign_search: "chart",
};

/** The icon of a kind of artefact or of a workflow, on its tinted tile. */
export function KindIcon({ of, size = 32 }: { of: string; size?: number }) {
  const icon = KIND_ICONS[of] ?? "graph";
  return (
    <span class={`kind-icon kind-${icon}`} style={{ width: `${size}px`, height: `${size}px` }}>
      <Icon name={icon} size={Math.round(size * 0.6)} />
    </span>
  );
}
