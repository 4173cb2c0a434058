// A video: its scenes as playing previews in a strip that is put in order by dragging or by keys.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, get, path, post, request } from "../api.ts";
import { count, seconds } from "../format.ts";
import { setQuery } from "../router.ts";
import { act, attempt, mayWrite, notify } from "../store.ts";
import "../styles/video.css";
import { Icon } from "../ui/icon.tsx";
import { Empty, Failure, Loading } from "../ui/states.tsx";
import { useRead, useScale } from "../ui/use_read.ts";
import { FilmMaker } from "./film_maker.tsx";
import { moved } from "./order.ts";
import type { PanelEntry, PanelProps } from "./panel.ts";
import { TakeWithYou } from "./take_with_you.tsx";

interface Scene { id: string; position: number | null; name: string; versionId: string; durationSeconds: number; summary: string; narrated: boolean; updatedAt: string; locked: boolean }
interface Project { id: string; title: string; scenes: Scene[]; canUndo: boolean; canRedo: boolean }

/** A scene's own page, drawn small; it plays while it is looked at or pointed to. */
export function Picture({ src, title, width }: { src: string; title: string; width: number }) {
  const [box, scale] = useScale(width, Infinity, 0.2);
  return (
    <div ref={box} class="picture">
      <iframe title={title} src={src} sandbox="" loading="lazy" tabIndex={-1} style={{ width: `${width}px`, height: `${(width * 9) / 16}px`, transform: `scale(${scale})` }} />
    </div>
  );
}

/** Moves a scene; while that is not possible it keeps the focus of a keyboard. */
function MoveButton({ label, off, onMove, children }: { label: string; off: boolean; onMove: () => void; children: string }) {
  return <button type="button" class="icon-button" aria-label={label} disabled={!mayWrite.value} aria-disabled={off} onClick={() => off || onMove()}>{children}</button>;
}

function SceneCard({ props, scene, last, playing, onPlay, onMove }: {
  props: PanelProps; scene: Scene; last: boolean; playing: boolean; onPlay: () => void; onMove: (to: number) => void;
}) {
  const lock = () => act(request(scene.locked ? "DELETE" : "PUT", path`/api/projects/${props.id}/locks/${scene.id}`), `${scene.name} ${scene.locked ? "can be changed again" : "stays as it is"}`, props.changed);
  const fixed = props.busy || !mayWrite.value;
  const position = scene.position ?? 1;
  const at = playing ? "" : `&at=${(scene.durationSeconds / 2).toFixed(2)}`;
  return (
    <li class="scene" draggable={fixed ? undefined : true}
      onDragStart={(event) => event.dataTransfer?.setData("text/plain", scene.id)}
      onKeyDown={(event) => {
        if (!event.altKey || fixed) return;
        if (event.key === "ArrowLeft" && position > 1) onMove(position - 2);
        if (event.key === "ArrowRight" && !last) onMove(position);
      }}>
      <Picture key={`${scene.versionId}${playing}`} title={`Scene ${position}: ${scene.name}`} width={1280} src={path`/api/projects/${props.id}/scenes/${scene.id}/preview?version=${scene.versionId}` + at} />
      <div class="scene-line">
        <span class="num muted">{position}</span>
        <strong>{scene.name}</strong>
        <span class="num muted">{seconds(scene.durationSeconds)}</span>
      </div>
      <div class="scene-line">
        <button type="button" class="icon-button" aria-pressed={playing} aria-label={playing ? `Stop ${scene.name}` : `Play ${scene.name}`} onClick={onPlay}><Icon name={playing ? "stop" : "play"} size={16} /></button>
        <MoveButton label={`Move ${scene.name} earlier`} off={fixed || position === 1} onMove={() => onMove(position - 2)}>‹</MoveButton>
        <MoveButton label={`Move ${scene.name} later`} off={fixed || last} onMove={() => onMove(position)}>›</MoveButton>
        <button type="button" class="tag link" onClick={() => setQuery({ tab: "versions", stream: scene.id })}>{scene.versionId}</button>
        <button type="button" class="icon-button end" disabled={!mayWrite.value} aria-pressed={scene.locked} aria-label={scene.locked ? `Unlock ${scene.name}` : `Lock ${scene.name}`} onClick={lock}><Icon name={scene.locked ? "lock" : "unlock"} size={16} /></button>
      </div>
    </li>
  );
}

function VideoPanel(props: PanelProps) {
  const [playing, play] = useState<string | null>(null);
  const [project, error, setProject] = useRead(() => get<Project>(path`/api/projects/${props.id}`), [props.id, props.revision]);
  const held = useRef<HTMLElement | null>(null);
  useEffect(() => {
    // A card that moves, also back and forth with what the server has, loses the focus.
    if (document.activeElement === document.body) held.current?.focus();
    else if (document.activeElement !== held.current) held.current = null;
  }, [project]);
  if (error) return <Failure error={error} />;
  if (!project) return <Loading label="Reading the video" />;
  const ids = project.scenes.map((one) => one.id);
  const total = project.scenes.reduce((sum, one) => sum + one.durationSeconds, 0);
  const move = async (id: string, to: number) => {
    const order = moved(ids, id, to);
    if (order.join() === ids.join()) return;
    const scenes = order.flatMap((one, i) => project.scenes.filter((scene) => scene.id === one).map((scene) => ({ ...scene, position: i + 1 })));
    held.current = document.activeElement as HTMLElement | null;
    setProject({ ...project, scenes });
    const started = await attempt(request<{ executionId: string | null }>("PUT", path`/api/projects/${props.id}/order`, { sceneIds: order }));
    if (started) notify("The order has changed", { action: { label: "Undo", run: () => void attempt(api.undoPlan(props.id, started.executionId ?? "")).then(() => props.changed()) } });
    props.changed();
  };
  const undo = (route: "undo" | "redo") => act(post(path`/api/projects/${props.id}/` + route), route === "undo" ? "The last change is undone" : "It is done again", props.changed);
  return (
    <div class="ad">
      <div class="ad-summary">
        <span class="tag">{count(project.scenes.length, "scene")}</span>
        <span class="tag num">{seconds(total)}</span>
        <button type="button" class="button small" aria-pressed={playing === "film"} disabled={ids.length === 0} onClick={() => play(playing === "film" ? null : "film")}><Icon name={playing === "film" ? "stop" : "play"} size={16} />{playing === "film" ? "Stop" : "Play all"}</button>
        {mayWrite.value && <>
          <button type="button" class="button small end" disabled={props.busy || !project.canUndo} onClick={() => undo("undo")}><Icon name="undo" size={16} />Undo</button>
          <button type="button" class="button small" disabled={props.busy || !project.canRedo} onClick={() => undo("redo")}>Redo</button>
        </>}
      </div>
      {playing === "film" && <Picture key={props.revision} title="The whole video" width={1280} src={path`/api/projects/${props.id}/preview`} />}
      {ids.length === 0
        ? <Empty icon="film" title="No scenes yet">Say what the video is about; its scenes appear here while they are made.</Empty>
        : (
          <ol class="scenes" aria-label="Scenes in order"
            onDragOver={(event) => event.preventDefault()}
            onDrop={(event) => {
              event.preventDefault();
              const id = event.dataTransfer?.getData("text/plain") ?? "";
              const cards = [...event.currentTarget.children];
              const to = cards.findIndex((card) => card === (event.target as Element).closest(".scene"));
              if (ids.includes(id)) void move(id, to < 0 ? ids.length - 1 : to);
            }}>
            {project.scenes.map((one, i) => (
              <SceneCard key={one.id} props={props} scene={one} last={i === ids.length - 1} playing={playing === one.id}
                onPlay={() => play(playing === one.id ? null : one.id)} onMove={(to) => void move(one.id, to)} />
            ))}
          </ol>
        )}
      <FilmMaker project={props.id} title={project.title} narrated={project.scenes.some((one) => one.narrated)} empty={ids.length === 0} />
      {ids.length > 0 && <TakeWithYou files={[
        ["Timeline", path`/api/projects/${props.id}/timeline.otio`, "OpenTimelineIO, for editing programs"],
        ["Preview", path`/api/projects/${props.id}/preview`, "HTML that plays"],
        ["JSON", path`/api/projects/${props.id}/export`, "the scenes"],
      ]} />}
      <p class="help">Drag a scene to another place, or press Alt with an arrow key.</p>
    </div>
  );
}

export const videoPanel: PanelEntry = {
  title: "Video", view: VideoPanel,
  picture: (id, scene, version) => (scene === "order" ? null : path`/api/projects/${id}/scenes/${scene}/preview?version=${version}&at=1`),
};
