import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Handle } from './codemirror';
import { dark } from '../lib/theme';

interface EditorProps {
  label: string;
  value: string;
  change: (text: string) => void;
  run: () => void;
  /** defer postpones the editor with completion until the user needs it. */
  defer: boolean;
}

/** Editor edits one expression. It begins as a plain field. The editor with completion takes its place once it is loaded. */
export function Editor({ label, value, change, run, defer }: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const handle = useRef<Handle | undefined>(undefined);
  const latest = useRef({ change, run, value });
  latest.current = { change, run, value };
  const isDark = dark();
  const [focused, setFocused] = useState(false);
  const wanted = focused || !defer;
  useEffect(() => {
    if (!wanted) return;
    let gone = false;
    import('./codemirror').then(({ createEditor }) => {
      if (gone || !host.current || !field.current) return;
      const active = document.activeElement === field.current;
      const at = field.current.selectionEnd;
      handle.current = createEditor(host.current, {
        label, text: latest.current.value, dark: dark(),
        change: (text) => latest.current.change(text),
        run: () => latest.current.run(),
      });
      field.current.hidden = true;
      host.current.hidden = false;
      if (active) handle.current.focus(at);
    }, () => {
      // The plain field stays.
    });
    return () => {
      gone = true;
      handle.current?.destroy();
    };
  }, [wanted]);
  // An effect after the paint could put back a text that the user has changed since.
  useLayoutEffect(() => handle.current?.setText(value), [value]);
  useEffect(() => handle.current?.setDark(isDark), [isDark]);
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey) return;
    event.preventDefault();
    run();
  };
  return (
    <div class="edit">
      <textarea ref={field} aria-label={label} rows={1} value={value} spellcheck={false}
        onInput={(e) => change(e.currentTarget.value)} onKeyDown={onKey} onFocus={() => setFocused(true)} placeholder="PromQL expression" />
      <div ref={host} class="host" hidden />
    </div>
  );
}
