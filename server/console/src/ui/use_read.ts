// The reading of a reply by a view, and the calls that a person starts there.
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

/** Make a call and take its reply; the error of the last one that failed, until one of `when` changes, and whether one goes on. */
export function useCall(when: unknown[] = []): [ApiError | null, <T>(call: Promise<T>, take: (reply: T) => void) => Promise<void>, boolean] {
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => setError(null), when);
  const make = async <T>(call: Promise<T>, take: (reply: T) => void) => {
    setBusy(true);
    await call.then((reply) => { setError(null); take(reply); }, (failure) => setError(asApiError(failure)));
    setBusy(false);
  };
  return [error, make, busy];
}
