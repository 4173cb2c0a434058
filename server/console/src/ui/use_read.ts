// The reading of a reply by a view.
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../api.ts";
import { asApiError } from "../store.ts";

/** A reply, read again when one of `when` changes and shown until the next one comes; its error; and how to replace it. */
export function useRead<T>(read: () => Promise<T>, when: unknown[], wanted = true): [T | null, ApiError | null, (value: T) => void] {
  const [reply, setReply] = useState<T | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    let current = wanted;
    if (wanted) read().then((next) => { if (current) { setReply(() => next); setError(null); } }, (failure) => current && setError(asApiError(failure)));
    return () => { current = false; };
  }, [...when, wanted]);
  return [reply, error, (next) => setReply(() => next)];
}
