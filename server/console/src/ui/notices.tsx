// Short messages at the foot of the page, and the banner of a lost connection.
import { useEffect, useState } from "preact/hooks";
import { sentence } from "../format.ts";
import { disconnected, dismiss, notices } from "../store.ts";
import { Icon } from "./icon.tsx";

export function Notices() {
  return (
    <div class="notices" aria-live="polite">
      {notices.value.map((notice) => (
        <div key={notice.id} class={notice.bad ? "notice bad" : "notice"} role={notice.bad ? "alert" : undefined}>
          <p>{sentence(notice.text)}{notice.remedy && <span class="notice-remedy">{sentence(notice.remedy)}</span>}</p>
          {notice.action && (
            <button type="button" class="button small" onClick={() => { notice.action?.run(); dismiss(notice.id); }}>{notice.action.label}</button>
          )}
          <button type="button" class="icon-button" aria-label="Dismiss" onClick={() => dismiss(notice.id)}><Icon name="close" size={16} /></button>
        </div>
      ))}
    </div>
  );
}

const GRACE_MS = 1_500;

/** Appears when a stream stays away for longer than a moment, and leaves by itself. */
export function ConnectionBanner() {
  const lost = disconnected.value;
  const [shown, show] = useState(false);
  useEffect(() => {
    if (!lost) return show(false);
    const timer = setTimeout(() => show(true), GRACE_MS);
    return () => clearTimeout(timer);
  }, [lost]);
  return (
    <div role="status">
      {shown && <p class="banner">The connection to the server is lost. Trying again. What is stored stays, and a run goes on where its server still runs.</p>}
    </div>
  );
}
