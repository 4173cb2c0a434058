// A part of the page that is loaded when somebody opens it.
import type { ComponentType } from "preact";
import { ApiError } from "../api.ts";
import { Failure, Loading } from "./states.tsx";
import { useRead } from "./use_read.ts";

export function later<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  return function Later(props: Props) {
    const [View, error] = useRead(() => load().catch(() => Promise.reject(new ApiError(0, "This part of the page was not loaded.", "Reload the page."))), []);
    if (error) return <Failure error={error} />;
    return View ? <View {...props} /> : <Loading />;
  };
}
