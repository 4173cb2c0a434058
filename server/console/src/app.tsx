// The console: one page for the people who make things, answer questions and look into runs.
//
// How it hangs together
//   api.ts, stream.ts    the client: requests with typed errors, event streams that resume
//   store.ts             what the whole page knows: session, questions, notices
//   router.ts            routes; add a page to ROUTES below and to PAGES there
//   *.ts                 pure functions, tested by test/*.test.ts
//   ui/                  parts without knowledge of the product: icon, dialog, form, table, chart
//   views/               one file for each region of a page
//   panels/              what is shown beside a conversation, one file for each kind of artefact
//   styles/              tokens, then one file for each region
//
// How a panel plugs in
//   A panel is a component of `PanelProps` (panels/panel.ts) that fills the pane beside a conversation. It stands in
//   panels/<kind>.tsx, which exports it as a `PanelEntry` that panels/index.ts lists, and imports its own stylesheet.
//   The pane then has two tabs: the panel, and the versions, which panels/versions.tsx draws for any kind. `revision`
//   grows with each change: read again. `say(text)` sends a request in the person's words; `changed()` after a change
//   by hand. A kind without a panel shows its versions; a graph without artefacts shows its state.
//   A page's view works the same way: views/<name>.tsx, its stylesheet, one line in ROUTES. What few people open is
//   loaded when it is opened (ui/later.tsx); its stylesheet is imported here.
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/shell.css";
import "./styles/home.css";
import "./styles/workspace.css";
import "./styles/inspect.css";
import "./styles/campaigns.css";
import { effect } from "@preact/signals";
import { render, type ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { SHORTCUTS, shortcutsShown, startKeyboard } from "./keyboard.ts";
import { servedKinds } from "./panels/index.ts";
import { location, match, startRouter } from "./router.ts";
import { endSession, pageTitle, questions, session, sessionError, startSession } from "./store.ts";
import { Boundary } from "./ui/boundary.tsx";
import { Dialog } from "./ui/dialog.tsx";
import { Icon } from "./ui/icon.tsx";
import { ConnectionBanner, Notices } from "./ui/notices.tsx";
import { later } from "./ui/later.tsx";
import { Empty, Failure, Loading } from "./ui/states.tsx";
import { Home } from "./views/home.tsx";
import { SignIn } from "./views/sign_in.tsx";
import { Workspace } from "./views/workspace.tsx";

const Artefacts = later(() => import("./views/artefacts.tsx").then((one) => one.Artefacts));
const Campaigns = later(() => import("./views/campaigns.tsx").then((one) => one.Campaigns));
const Settings = later(() => import("./views/settings.tsx").then((one) => one.Settings));
const Inspect = later(() => import("./views/inspect.tsx").then((one) => one.Inspect));

const ROUTES: [string, string, (params: Record<string, string>) => ComponentChildren][] = [
  ["/", "Home", () => <Home />],
  ["/c/:thread", "Workspace", ({ thread = "" }) => <Workspace key={thread} thread={thread} />],
  ["/artefacts", "Artefacts", () => <Artefacts />],
  ["/campaigns", "Campaigns", () => <Campaigns />],
  ["/settings", "Settings", () => <Settings />],
  ["/inspect/:thread", "Inspector", ({ thread = "" }) => <Inspect key={thread} thread={thread} />],
];

const LINKS: [string, string, string][] = [
  ["/", "home", "Home"],
  ["/artefacts", "layers", "Artefacts"],
  ["/campaigns", "chart", "Campaigns"],
  ["/settings", "settings", "Settings"],
];

/** The links to what the served workflows have. */
function links() {
  const kinds = servedKinds().map(([kind]) => kind);
  return LINKS.filter(([href]) => (href === "/campaigns" ? kinds.includes("campaigns") : href !== "/artefacts" || kinds.length > 0));
}

function Rail() {
  const { path } = location.value;
  const waiting = questions.value.length;
  const user = session.value?.user;
  return (
    <nav class="rail" aria-label="Main">
      <a class="brand" href="/"><span class="mark" aria-hidden="true" /><span>Callsheet</span></a>
      <ul>
        {links().map(([href, icon, label]) => (
          <li key={href}>
            <a href={href} aria-current={path === href ? "page" : undefined}>
              <Icon name={icon} /><span>{label}</span>
              {href === "/" && waiting > 0 && <span class="badge" aria-label={`${waiting} waiting`}>{waiting}</span>}
            </a>
          </li>
        ))}
      </ul>
      <div class="rail-foot">
        <button type="button" class="rail-button" onClick={() => { shortcutsShown.value = true; }}><kbd aria-hidden="true">?</kbd><span>Shortcuts</span></button>
        {session.value?.auth === "keys" && user && (
          <button type="button" class="rail-button" onClick={() => void endSession()}><Icon name="person" size={16} /><span>Sign out {user.name ?? user.owner}</span></button>
        )}
      </div>
    </nav>
  );
}

function Shortcuts() {
  if (!shortcutsShown.value) return null;
  return (
    <Dialog title="Shortcuts" onClose={() => { shortcutsShown.value = false; }}>
      <dl class="shortcuts">
        {SHORTCUTS.map(([key, text]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{text}</dd></div>)}
      </dl>
    </Dialog>
  );
}

/** A change of the page moves the focus to its content, for who reads by ear. */
function Main() {
  const { path } = location.value;
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    if (!first.current && !main.current?.contains(document.activeElement)) main.current?.focus({ preventScroll: true });
    first.current = false;
  }, [path]);
  const unserved = LINKS.some(([href]) => href === path) && !links().some(([href]) => href === path);
  const [view] = unserved ? [] : ROUTES.flatMap(([pattern, , draw]) => {
    const params = match(pattern, path);
    return params ? [draw(params)] : [];
  });
  return (
    <main id="main" ref={main} tabIndex={-1}>
      <Boundary key={path}>{view ?? <div class="page"><h1>Not found</h1><Empty title={unserved ? "No workflow of this server has this page" : "There is no such page"}><a href="/">Go to Home</a></Empty></div>}</Boundary>
    </main>
  );
}

function App() {
  const known = session.value;
  if (!known) {
    return (
      <main class="page" id="main">
        {sessionError.value ? <Failure error={sessionError.value} onRetry={() => void startSession()} /> : <Loading label="Loading the console" />}
      </main>
    );
  }
  if (known.auth !== "none" && !known.signedIn) return <><SignIn /><Notices /></>;
  return (
    <>
      <a class="skip-link" href="#main">Skip to the content</a>
      <Rail />
      <ConnectionBanner />
      <Main />
      <Notices />
      <Shortcuts />
    </>
  );
}

effect(() => {
  const waiting = questions.value.length;
  const page = pageTitle.value || (ROUTES.find(([pattern]) => match(pattern, location.value.path))?.[1] ?? "");
  document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${page && page !== "Home" ? `${page} · ` : ""}Callsheet`;
});

startRouter();
startKeyboard();
void startSession();
const root = document.getElementById("app");
if (root) render(<App />, root);
