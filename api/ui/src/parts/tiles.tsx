import type { ComponentChildren } from 'preact';

/** Tile is one figure with its name. */
export interface Tile {
  name: string;
  value: ComponentChildren;
  hint?: string;
  bad?: boolean;
}

/** Tiles shows figures side by side. */
export function Tiles({ tiles }: { tiles: Tile[] }) {
  return (
    <dl class="tiles">
      {tiles.map((t) => (
        <div key={t.name} class={t.bad ? 'bad' : ''}>
          <dt>{t.name}</dt>
          <dd>{t.value}</dd>
          {t.hint && <dd class="quiet">{t.hint}</dd>}
        </div>
      ))}
    </dl>
  );
}
