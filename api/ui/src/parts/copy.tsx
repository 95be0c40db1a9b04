import { useState } from 'preact/hooks';

/** Copyable is a block of text with a button that copies it. */
export function Copyable({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  const copy = () => navigator.clipboard?.writeText(text).then(() => {
    setDone(true);
    setTimeout(() => setDone(false), 2000);
  });
  return (
    <div class="copyable">
      <pre tabIndex={0} aria-label={label}>{text}</pre>
      {navigator.clipboard && <button type="button" onClick={copy} aria-label={`Copy: ${label}`}>{done ? 'Copied' : 'Copy'}</button>}
    </div>
  );
}
