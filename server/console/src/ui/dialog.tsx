// A modal dialog on the browser's own <dialog>: focus is kept inside, Escape closes.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Icon } from "./icon.tsx";

export function Dialog({ title, onClose, wide = false, children }: { title: string; onClose: () => void; wide?: boolean; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => before?.isConnected && before.focus();
  }, []);
  return (
    <dialog ref={dialog} class={wide ? "dialog wide" : "dialog"} aria-labelledby={id} onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}>
      <div class="dialog-body">
        <header class="dialog-head">
          <h2 id={id}>{title}</h2>
          <button type="button" class="icon-button" aria-label="Close" onClick={onClose}><Icon name="close" /></button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** Ask before something that cannot be undone; `lost` names what is lost. */
export function Confirm({ title, lost, action, onConfirm, onClose }: {
  title: string; lost: string; action: string; onConfirm: () => void; onClose: () => void;
}) {
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{lost}</p>
      <div class="actions end">
        <button type="button" class="button" onClick={onClose}>Keep it</button>
        <button type="button" class="button danger" onClick={() => { onConfirm(); onClose(); }}>{action}</button>
      </div>
    </Dialog>
  );
}
