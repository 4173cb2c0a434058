// A part that cannot be drawn says so in its own place; the rest of the page goes on.
import { Component, type ComponentChildren } from "preact";
import { Failure } from "./states.tsx";
import { ApiError } from "../api.ts";

export class Boundary extends Component<{ children: ComponentChildren }, { failure: Error | null }> {
  override state = { failure: null as Error | null };

  override componentDidCatch(failure: Error): void {
    console.error(failure);
    this.setState({ failure });
  }

  override render(): ComponentChildren {
    const { failure } = this.state;
    if (!failure) return this.props.children;
    const error = new ApiError(0, `This part cannot be shown: ${failure.message}`, "Reload the page; if it stays, report it with the console's output.");
    return <Failure error={error} onRetry={() => this.setState({ failure: null })} />;
  }
}
