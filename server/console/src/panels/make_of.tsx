// One thing made of another, such as a page of an ad: one request, then its conversation.
import { path, post } from "../api.ts";
import { newId } from "../ids.ts";
import { navigate } from "../router.ts";
import { attempt, mayWrite, notify } from "../store.ts";
import type { Fields } from "../types.ts";

export function MakeOf({ label, url, body }: { label: string; url: string; body: Fields }) {
  const make = async (event: Event) => {
    const button = event.currentTarget as HTMLButtonElement;
    button.disabled = true;
    const reply = await attempt(post<Fields>(url, body, { headers: { "Idempotency-Key": newId() } }));
    button.disabled = false;
    for (const one of (reply?.notices ?? []) as string[]) notify(one);
    if (reply) navigate(path`/c/${reply.conversationId ?? reply.threadId}`);
  };
  return mayWrite.value ? <button type="button" class="button small" onClick={make}>{label}</button> : null;
}
