/** Tabs chooses one of several views. Arrow keys move the choice. */
export function Tabs({ label, tabs, active, choose }: {
  label: string;
  tabs: { id: string; title: string }[];
  active: string;
  choose: (id: string) => void;
}) {
  const onKey = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((t) => t.id === active);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    choose(next.id);
    const list = event.currentTarget as HTMLElement;
    requestAnimationFrame(() => list.querySelector<HTMLElement>('[aria-selected=true]')?.focus());
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={onKey}>
      {tabs.map((t) => (
        <button key={t.id} type="button" role="tab" aria-selected={t.id === active} tabIndex={t.id === active ? 0 : -1} onClick={() => choose(t.id)}>
          {t.title}
        </button>
      ))}
    </div>
  );
}
