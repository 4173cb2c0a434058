// A page whose view is not built in: says what it is for and where to find it until then.
import { Empty } from "../ui/states.tsx";

export function Soon({ title, icon, children }: { title: string; icon: string; children: string }) {
  return (
    <div class="page">
      <h1>{title}</h1>
      <Empty icon={icon} title="Not part of the console yet">{children}</Empty>
    </div>
  );
}
