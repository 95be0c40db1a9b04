import { useRef, useState } from 'preact/hooks';
import { keep, stored } from '../lib/storage';

const key = 'halite.history';

/** entriesMax bounds the history. */
const entriesMax = 100;

export function readHistory(): string[] {
  try {
    const list = JSON.parse(stored(key) ?? '[]');
    return Array.isArray(list) ? list.filter((e) => typeof e === 'string') : [];
  } catch {
    return [];
  }
}

/** remember puts expressions in front of the history. */
export function remember(exprs: string[]): void {
  const fresh = exprs.map((e) => e.trim()).filter(Boolean);
  const list = [...fresh, ...readHistory().filter((e) => !fresh.includes(e))].slice(0, entriesMax);
  keep(key, JSON.stringify(list));
}

/** History is a dialog with the previous expressions. */
export function History({ choose }: { choose: (expr: string) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [list, setList] = useState<string[]>([]);
  const [search, setSearch] = useState('');
  const open = () => {
    setList(readHistory());
    setSearch('');
    dialog.current?.showModal();
  };
  const take = (expr: string) => {
    dialog.current?.close();
    choose(expr);
  };
  const clear = () => {
    keep(key, '[]');
    setList([]);
  };
  const found = list.filter((e) => e.toLowerCase().includes(search.toLowerCase()));
  return (
    <>
      <button type="button" onClick={open}>History</button>
      <dialog ref={dialog} class="history" aria-label="Previous expressions">
        <form method="dialog" class="bar">
          <input aria-label="Search the history" placeholder="Search" value={search} onInput={(e) => setSearch(e.currentTarget.value)} />
          <button type="button" onClick={clear} disabled={!list.length}>Forget all</button>
          <button type="submit" class="push">Close</button>
        </form>
        <ul>
          {found.map((e) => <li key={e}><button type="button" onClick={() => take(e)}>{e}</button></li>)}
        </ul>
        {!found.length && <p class="quiet">{list.length ? 'No expression contains this.' : 'You have run no expression yet.'}</p>}
      </dialog>
    </>
  );
}
