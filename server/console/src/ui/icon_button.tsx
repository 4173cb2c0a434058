// A button that shows only an icon, named for who cannot see it and on hover.
import { Icon } from "./icon.tsx";

export function IconButton({ icon, label, size = 16, disabled = false, onClick }: {
  icon: string; label: string; size?: number; disabled?: boolean; onClick: () => void;
}) {
  return (
    <button type="button" class="icon-button" aria-label={label} title={label} disabled={disabled} onClick={onClick}>
      <Icon name={icon} size={size} />
    </button>
  );
}
