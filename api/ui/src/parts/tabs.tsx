import type { ComponentChildren } from 'preact';

/** Tabs chooses one of several views, which TabPanel with the same panel shows. Arrow keys, Home and End move the choice. */
export function Tabs({ label, panel, tabs, active, choose }: {
  label: string;
  panel: string;
  tabs: { id: string; title: string }[];
  active: string;
  choose: (id: string) => void;
}) {
  const onKey = (event: KeyboardEvent) => {
    const at = tabs.findIndex((t) => t.id === active);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    // With a modifier, the browser goes back or to another tab.
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    choose(tabs[(to + tabs.length) % tabs.length].id);
    const list = event.currentTarget as HTMLElement;
    requestAnimationFrame(() => list.querySelector<HTMLElement>('[aria-selected=true]')?.focus());
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={onKey}>
      {tabs.map((t) => (
        <button key={t.id} id={tabId(panel, t.id)} type="button" role="tab" aria-selected={t.id === active} aria-controls={t.id === active ? panel : undefined}
          tabIndex={t.id === active ? 0 : -1} onClick={() => choose(t.id)}>
          {t.title}
        </button>
      ))}
    </div>
  );
}

/** TabPanel is the view of the active tab. */
export function TabPanel({ panel, active, children }: { panel: string; active: string; children: ComponentChildren }) {
  return <div id={panel} role="tabpanel" aria-labelledby={tabId(panel, active)}>{children}</div>;
}

function tabId(panel: string, id: string): string {
  return `${panel}-${id}`;
}
