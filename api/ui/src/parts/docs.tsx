/** Docs names a place in the documents, such as docs/doctor.md#disk. The server does not serve them; they are part of the source. */
export function Docs({ at }: { at: string }) {
  const [file, section] = at.split('#');
  return <>Background: the file <code>{file}</code> in the source code of Halite{section && <>, under “{section}”</>}.</>;
}
