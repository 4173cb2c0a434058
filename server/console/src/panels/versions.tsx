// Versions of any artefact: each with the request that made it, its content, and what it changed.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, type ApiError } from "../api.ts";
import { wordDiff } from "../diff.ts";
import { count, words } from "../format.ts";
import { location, setQuery } from "../router.ts";
import { asApiError, attempt, mayWrite, notify } from "../store.ts";
import type { ArtefactView, Json, Version, VersionDiff } from "../types.ts";
import { Ago, Empty, Failure, Loading } from "../ui/states.tsx";
import { Value } from "../ui/value.tsx";
import { versionActions } from "./actions.ts";
import type { PanelProps } from "./panel.ts";

function Changed({ before, after }: { before: Json | undefined; after: Json | undefined }) {
  if (typeof before === "string" && typeof after === "string") {
    return (
      <p class="diff-text">
        {wordDiff(before, after).map((piece, i) =>
          piece.kind === "same" ? <span key={i}>{piece.text}</span>
          : piece.kind === "added" ? <ins key={i}>{piece.text}</ins>
          : <del key={i}>{piece.text}</del>)}
      </p>
    );
  }
  return (
    <div class="diff-values">
      {before !== undefined && <del><Value value={before} /></del>}
      {after !== undefined && <ins><Value value={after} /></ins>}
    </div>
  );
}

export function DiffView({ kind, id, stream, from, to }: { kind: string; id: string; stream: string; from: string; to: string }) {
  const [diff, setDiff] = useState<VersionDiff | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    let current = true;
    setDiff(null);
    setError(null);
    api.diff(kind, id, stream, from, to).then((reply) => current && setDiff(reply), (failure) => current && setError(asApiError(failure)));
    return () => { current = false; };
  }, [kind, id, stream, from, to]);
  if (error) return <Failure error={error} />;
  if (!diff) return <Loading label="Comparing" rows={2} />;
  if (diff.changes.length === 0) return <p class="muted">{to} is equal to {from}.</p>;
  return (
    <ul class="diff">
      {diff.changes.map((change, i) => (
        <li key={i}>
          <span class="diff-path"><span class="muted">{words(change.kind)}</span> {change.path}</span>
          <Changed before={change.before} after={change.after} />
        </li>
      ))}
    </ul>
  );
}

function Actions({ props, stream, version, active, newest }: { props: PanelProps; stream: string; version: Version; active: boolean; newest: boolean }) {
  const [busy, setBusy] = useState(false);
  const actions = versionActions(props.kind, props.id, stream, version.id, { active, newest });
  if (actions.length === 0 || !mayWrite.value) return null;
  return (
    <div class="actions">
      {actions.map((action) => (
        <button key={action.label} type="button" class="button small" disabled={busy} onClick={async () => {
          setBusy(true);
          const reply = await attempt(action.run().then(() => true));
          if (reply) notify(action.done);
          setBusy(false);
          props.changed();
          setQuery({ version: null });
        }}>{action.label}</button>
      ))}
    </div>
  );
}

function VersionView({ props, stream, version, active, newest }: { props: PanelProps; stream: string; version: Version; active: boolean; newest: boolean }) {
  const [data, setData] = useState<Version | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const changes = location.value.query.get("show") === "changes" && version.parent !== null;
  useEffect(() => {
    let current = true;
    api.version(props.kind, props.id, stream, version.id).then((reply) => current && setData(reply), (failure) => current && setError(asApiError(failure)));
    return () => { current = false; };
  }, [props.kind, props.id, stream, version.id, version.status]);
  return (
    <article class="version" aria-label={`${words(stream)} ${version.id}`}>
      <div class="version-head">
        <div>
          {version.request && <p class="version-request">“{version.request}”</p>}
          <p class="meta">
            <span>{version.by === "model" ? (version.model || "a model") : version.by === "person" ? version.createdBy : version.by}</span>
            <Ago of={version.createdAt} />
            {version.parent && <span>from {version.parent}</span>}
          </p>
        </div>
        <Actions props={props} stream={stream} version={version} active={active} newest={newest} />
      </div>
      {version.parent && (
        <div class="segmented" role="group" aria-label="What to show">
          <button type="button" aria-pressed={!changes} onClick={() => setQuery({ show: null })}>Content</button>
          <button type="button" aria-pressed={changes} onClick={() => setQuery({ show: "changes" })}>What changed</button>
        </div>
      )}
      {error ? <Failure error={error} />
        : changes && version.parent ? <DiffView kind={props.kind} id={props.id} stream={stream} from={version.parent} to={version.id} />
        : data ? <Value value={(data.data ?? null) as Json} /> : <Loading label="Reading the version" />}
    </article>
  );
}

/** The versions of one stream: a strip to choose from, and the chosen one. */
export function StreamVersions({ props, stream }: { props: PanelProps; stream: string }) {
  const [list, setList] = useState<{ versions: Version[]; active: string | null } | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    let current = true;
    api.versions(props.kind, props.id, stream).then(
      (reply) => { if (current) { setList(reply); setError(null); } },
      (failure) => current && setError(asApiError(failure)),
    );
    return () => { current = false; };
  }, [props.kind, props.id, stream, props.revision]);
  if (error && !(error.status === 0 && list)) return <Failure error={error} />;
  if (!list) return <Loading label="Reading the versions" />;
  const newest = list.versions.at(-1);
  const chosen = list.versions.find((one) => one.id === location.value.query.get("version")) ?? newest;
  if (!chosen) return <Empty title="No version yet">It appears here as soon as one is made.</Empty>;
  return (
    <>
      <div class="strip" role="group" aria-label="Versions">
        {list.versions.map((one) => (
          <button key={one.id} type="button" class="chip" aria-pressed={one === chosen} title={one.request || one.summary}
            onClick={() => setQuery({ version: one === newest ? null : one.id })}>
            {one.id}{one.id === list.active && <span class="chip-note">active</span>}
          </button>
        ))}
      </div>
      <VersionView key={`${stream}/${chosen.id}`} props={props} stream={stream} version={chosen} active={chosen.id === list.active} newest={chosen === newest} />
    </>
  );
}

/** Streams of an artefact, and the versions of the chosen one. */
export function Versions(props: PanelProps & { artefact: ArtefactView }) {
  const strip = useRef<HTMLDivElement>(null);
  const { streams } = props.artefact;
  const names = Object.keys(streams).filter((name) => (streams[name]?.count ?? 0) > 0);
  const wanted = location.value.query.get("stream") ?? "";
  const newest = names.reduce<string | undefined>((best, name) => ((streams[name]?.updatedAt ?? "") > (streams[best ?? ""]?.updatedAt ?? "") ? name : best), names[0]);
  const stream = names.includes(wanted) ? wanted : newest;
  useEffect(() => {
    const box = strip.current;
    const tab = box?.querySelector<HTMLElement>("[aria-pressed=true]");
    if (box && tab) box.scrollLeft = tab.offsetLeft - box.offsetLeft - (box.clientWidth - tab.offsetWidth) / 2;
  }, [stream]);
  if (!stream) return <Empty icon="layers" title="Nothing was made yet">Each version of this {props.kind} is kept here, with the request that made it.</Empty>;
  return (
    <div class="versions">
      <div class="strip streams" ref={strip} role="group" aria-label="Parts">
        {names.map((name) => (
          <button key={name} type="button" class="tab" aria-pressed={name === stream} onClick={() => setQuery({ stream: name, version: null })}>
            {words(name)}<span class="tab-note">{count(streams[name]?.count ?? 0, "version")}</span>
          </button>
        ))}
      </div>
      <StreamVersions key={stream} props={props} stream={stream} />
    </div>
  );
}
