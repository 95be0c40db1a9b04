import { route, setParam } from '../lib/route';

/** SearchField filters a list. The URL keeps its text in the parameter name. */
export function SearchField({ name, label }: { name: string; label: string }) {
  return (
    <label>{label}
      <input type="search" value={route.value.params.get(name) ?? ''} onInput={(e) => setParam(name, e.currentTarget.value, true)} />
    </label>
  );
}
