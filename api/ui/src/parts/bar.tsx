/** Bar shows a share of 1 as a bar with its percentage. */
export function Bar({ share, label }: { share: number; label: string }) {
  const part = Math.max(0, Math.min(1, share || 0));
  return (
    <span class="share">
      <meter value={part} max={1} aria-label={label} />
      <span>{(part * 100).toFixed(part && part < 0.1 ? 1 : 0)} %</span>
    </span>
  );
}
