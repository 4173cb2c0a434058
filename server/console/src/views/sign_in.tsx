// Sign-in with a key, or how to get past a company's own sign-in.
import { useState } from "preact/hooks";
import { api } from "../api.ts";
import { sentence } from "../format.ts";
import { asApiError, session, startSession } from "../store.ts";

export function SignIn() {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const jwt = session.value?.auth === "jwt";
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      await api.signIn(key.trim());
      await startSession();
    } catch (error) {
      const { status, message, remedy } = asApiError(error);
      setProblem(status === 401 ? "This key is not known, or was revoked." : [message, remedy].filter(Boolean).map(sentence).join(" "));
    }
    setBusy(false);
  };
  return (
    <main class="sign-in" id="main">
      <h1><span class="mark" aria-hidden="true" />Callsheet</h1>
      {jwt ? (
        <>
          <p>This server accepts your company’s tokens.</p>
          <p class="muted">Open the console through the proxy that signs you in; it sends the token with each request, as <code>Authorization: Bearer</code>.</p>
        </>
      ) : (
        <form onSubmit={send}>
          <div class="field">
            <label for="key">Key</label>
            <input id="key" type="password" autocomplete="current-password" required value={key} placeholder="cs_…"
              aria-invalid={problem ? true : undefined} aria-describedby="key-help key-error" onInput={(event) => setKey(event.currentTarget.value)} />
            <p class="help" id="key-help">Whoever runs this server makes one with <code>callsheet keys create</code>.</p>
            <p class="field-error" id="key-error" role="alert">{problem}</p>
          </div>
          <button type="submit" class="button primary wide" disabled={busy || !key.trim()}>Sign in</button>
        </form>
      )}
    </main>
  );
}
