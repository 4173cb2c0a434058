// A lesson: its facts with the passages that prove them, and the narration by segment with seconds and words.
import { useState } from "preact/hooks";
import { api, get, path, post, request } from "../api.ts";
import { count, sentence, words } from "../format.ts";
import { mayWrite } from "../store.ts";
import "../styles/lesson.css";
import { Icon } from "../ui/icon.tsx";
import { later } from "../ui/later.tsx";
import { Empty, Failure, Fold, Loading } from "../ui/states.tsx";
import { useCall, useRead } from "../ui/use_read.ts";
import { factNumbers, spokenWords } from "./lesson_facts.ts";
import { MakeOf } from "./make_of.tsx";
import type { PanelEntry, PanelProps } from "./panel.ts";
import { TakeWithYou, type Takeaway } from "./take_with_you.tsx";
import { WordsEditor } from "./words_editor.tsx";

export interface Fact { id: string; concept: string; details: string; confidence: number; source: { quote: string; start: number; end: number } | null }
interface Segment {
  id: string; type: string; start_time: number; duration: number; narration: string; visual_guidance: string;
  sentences: { text: string; factIds: string[] }[];
}
interface Lesson {
  sessionId: string; status: string; waitsFor: string | null; topic: string | null; learningObjective: string | null;
  childAge: string | null; childInterest: string | null; learningStyle: string | null;
  facts: Fact[]; earlierFacts: Fact[]; confirmedFacts: Fact[]; warnings: string[];
  speech: string | null; segmentTimes: [start: number, end: number][] | null; segmentNotes: Record<string, string[]>;
  narration: { total_duration: number; reading_level: string; segments: Segment[]; readability: { formula: string; grade: number; within: boolean } | null; } | null;
}

type ShownLesson = Lesson & { version: string | null };

const NARRATION: [format: string, label: string, purpose: string][] = [
  ["md", "Markdown", "the narration to read"], ["slides", "Slides", "HTML, with the words as notes"], ["srt", "SRT", "subtitles"], ["vtt", "WebVTT", "subtitles for the web"], ["json", "JSON", "all of it"],
];
const QUIZ: [format: string, label: string, purpose: string][] = [
  ["md", "Quiz", "Markdown to print, with answers"], ["csv", "Flashcards", "CSV for Anki"], ["qti", "QTI package", "ZIP for learning platforms"],
];
const Compare = later(() => import("./compare.tsx").then((one) => one.Compare));

function files(session: string, narrated: boolean, quizzed: boolean): Takeaway[] {
  const audio = path`/api/agent-create/session/narration/audio?sessionId=${session}`;
  const render = () => post(path`/api/agent-create/session/narration/render?sessionId=${session}`, {});
  return [
    ...(narrated ? [["Sound", audio, "MP3 of the narration", render] as Takeaway] : []),
    ...(narrated ? NARRATION : []).map(([format, label, purpose]): Takeaway => [label, path`/api/agent-create/session/narration?sessionId=${session}&format=${format}`, purpose]),
    ...(quizzed ? QUIZ : []).map(([format, label, purpose]): Takeaway => [label, path`/api/agent-create/session/quiz?sessionId=${session}&format=${format}`, purpose]),
  ];
}

/** Versions of the narration by ear, segment by segment. */
function CompareLesson({ lesson }: { lesson: ShownLesson }) {
  const [list] = useRead(() => api.versions("lesson", lesson.sessionId, "narration"), [lesson.version]);
  if (!list) return <Loading rows={1} />;
  const versions = list.versions.map((one) => one.id);
  const render = (segment: string, version: string) => post<Rendering & { loudnessLufs: number | null }>(path`/api/agent-create/session/narration/render?sessionId=${lesson.sessionId}`, { segment, version });
  return <Compare parts={(lesson.narration?.segments ?? []).map((one) => [one.id, words(one.type), versions])} render={render} />;
}

function FactRow({ fact, number, chosen }: { fact: Fact; number: number | null; chosen: boolean }) {
  return (
    <li class={chosen ? "fact chosen" : "fact"} id={`fact-${fact.id}`}>
      <span class="fact-mark" aria-hidden="true">{number ?? (chosen ? "✓" : "")}</span>
      <div>
        <p><strong>{fact.concept}</strong>{chosen && <span class="sr-only"> (chosen)</span>}</p>
        <p>{fact.details}</p>
        {fact.source && fact.source.quote !== fact.details
          ? <blockquote class="quote">{fact.source.quote}</blockquote>
          : <p class="help">{fact.source ? "Word for word from the material." : "Added by a person; no passage of the material."}</p>}
      </div>
    </li>
  );
}

interface Rendering { url: string; seconds: number; notices: string[] }

/** Renders what is to be heard, the whole or one segment, and plays it. */
function Listen({ session, segment, label, known = "", onRendered = () => {} }: { session: string; segment?: string; label: string; /** What the heading says. */ known?: string; onRendered?: () => void }) {
  const [rendering, setRendering] = useState<Rendering | null>(null);
  const [error, call, busy] = useCall();
  const listen = () => call(post<Rendering>(path`/api/agent-create/session/narration/render?sessionId=${session}`, segment ? { segment } : {}), (made) => { setRendering(made); onRendered(); });
  return (
    <div class="lesson-sound" aria-busy={busy}>
      {!rendering && <button type="button" class="button small" disabled={busy} aria-label={label} onClick={listen}><Icon name="play" size={16} />{busy ? "Rendering …" : "Listen"}</button>}
      {error && <Failure error={error} />}
      {rendering && (
        <>
          <audio controls autoplay preload="auto" src={rendering.url} aria-label={label} onError={() => setRendering(null)} />
          {rendering.notices.filter((one) => one !== `${known}.`).map((one) => <p key={one} class="help">{sentence(one)}</p>)}
        </>
      )}
    </div>
  );
}

function SegmentView({ props, lesson, segment, times, numbers }: { props: PanelProps; lesson: ShownLesson; segment: Segment; times?: [start: number, end: number]; numbers: Map<string, number> }) {
  const [edited, edit] = useState(false);
  const spoken = spokenWords(segment.narration);
  return (
    <li class="segment">
      <div class="track-head">
        <h4>{words(segment.type)}</h4>
        <span class="num muted">{times ? `${times[0].toFixed(1)}–${times[1].toFixed(1)} s` : `planned ${segment.start_time}–${segment.start_time + segment.duration} s`} · {count(spoken, "word")}</span>
      </div>
      {edited
        ? <WordsEditor label={`Words of ${words(segment.type)}`} text={segment.narration} version={lesson.version} onChanged={props.changed} onClose={() => edit(false)} onSave={(narration) =>
            request("PATCH", path`/api/agent-create/session/narration?sessionId=${lesson.sessionId}`, { segments: [{ id: segment.id, narration }], version: lesson.version })} />
        : (
          <div class="track-line">
            <p>
              {segment.sentences.map((sentence, i) => (
                <span key={i}>{sentence.text}{sentence.factIds.map((id) => numbers.has(id) && <sup key={id}><a href={`#fact-${id}`} aria-label={`proven by fact ${numbers.get(id)}`} onClick={(event) => { event.preventDefault(); document.getElementById(`fact-${id}`)?.scrollIntoView({ block: "center" }); }}>{numbers.get(id)}</a></sup>)}{" "}</span>
              ))}
            </p>
            {!props.busy && mayWrite.value && <button type="button" class="icon-button" aria-label={`Edit ${words(segment.type).toLowerCase()}`} onClick={() => edit(true)}><Icon name="edit" size={16} /></button>}
          </div>
        )}
      {lesson.segmentNotes[segment.id]?.map((one) => <p key={one} class="caution">{sentence(one)}</p>)}
      {!edited && <Listen key={segment.narration} session={lesson.sessionId} segment={segment.id} label={`Listen to ${words(segment.type).toLowerCase()}`} />}
      {segment.visual_guidance && <p class="help">{!/^show\b/i.test(segment.visual_guidance) && <strong>Show: </strong>}{segment.visual_guidance}</p>}
    </li>
  );
}

function LessonView(props: PanelProps) {
  const [lesson, error] = useRead(async (): Promise<ShownLesson> => {
    // The version first: a narration that changes between both reads is a conflict then, and nobody's words are lost.
    const artefact = await api.artefact("lesson", props.id);
    const read = await get<Lesson>(path`/api/agent-create/session?sessionId=${props.id}`);
    return { ...read, version: artefact.streams.narration?.newest ?? null };
  }, [props.id, props.revision]);
  if (!lesson) return error ? <Failure error={error} /> : <Loading label="Reading the lesson" />;
  const chosen = new Set(lesson.confirmedFacts.map((one) => one.id));
  const numbers = factNumbers(lesson.confirmedFacts.map((one) => one.id));
  const facts = [...lesson.confirmedFacts, ...[...lesson.facts, ...lesson.earlierFacts].filter((one) => !chosen.has(one.id))];
  const about: [string, string | null][] = [["Age", lesson.childAge], ["Likes", lesson.childInterest], ["Learns by", lesson.learningStyle]];
  const readability = lesson.narration?.readability;
  return (
    <div class="ad">
      {error && <Failure error={error} />}
      <div class="ad-summary">
        {lesson.topic && <h3>{lesson.topic}</h3>}
        {about.map(([name, value]) => value && <span key={name} class="tag">{name} {value}</span>)}
      </div>
      {lesson.learningObjective && <p class="muted">{lesson.learningObjective}</p>}
      {lesson.warnings.map((one) => <p key={one} class="caution">{sentence(one)}</p>)}
      {lesson.narration && (
        <section class="part">
          <header class="part-head">
            <h3>Narration</h3>
            <span class="help num">{lesson.speech}</span>
            {readability && <span class={`pill ${readability.within ? "ok" : "wait"}`} title={readability.formula}>reading level: target grade {lesson.narration.reading_level}, measured grade {readability.grade}</span>}
          </header>
          <Listen key={JSON.stringify(lesson.narration.segments.map((one) => one.narration))} session={lesson.sessionId} label="Listen to the narration" known={lesson.speech ?? ""} onRendered={props.changed} />
          <ol class="script">{lesson.narration.segments.map((one, i) => <SegmentView key={one.id} props={props} lesson={lesson} segment={one} times={lesson.segmentTimes?.[i]} numbers={numbers} />)}</ol>
          <p class="actions">
            <MakeOf label="Make scenes of this" url="/api/projects" body={{ lessonId: lesson.sessionId }} />
          </p>
        </section>
      )}
      {lesson.version && lesson.version !== "v1" && mayWrite.value && <Fold title="Compare by ear"><CompareLesson lesson={lesson} /></Fold>}
      {(lesson.narration || chosen.size > 0) && <TakeWithYou files={files(lesson.sessionId, lesson.narration !== null, chosen.size > 0)} />}
      <section class="part">
        <header class="part-head">
          <h3>Facts</h3>
          {chosen.size > 0 && lesson.waitsFor === null && !props.busy && mayWrite.value && <button type="button" class="button small" onClick={() => void props.say("Choose the facts again")}>Choose again</button>}
          <span class="help">{chosen.size > 0 ? `${chosen.size} of ${facts.length} chosen` : lesson.waitsFor === "select_facts" ? "Choose them in the conversation" : ""}</span>
        </header>
        {facts.length === 0
          ? <Empty icon="book" title="No facts yet">Paste a text or name a page; the facts found in it appear here with their passages.</Empty>
          : <ol class="facts">{facts.map((one) => <FactRow key={one.id} fact={one} number={numbers.get(one.id) ?? null} chosen={chosen.has(one.id)} />)}</ol>}
      </section>
    </div>
  );
}

export const lessonPanel: PanelEntry | null = { title: "Lesson", view: LessonView };
