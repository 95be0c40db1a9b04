/** stored returns the text that keep has put under a key. It is null if there is none, or if the browser allows no storage. */
export function stored(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** keep stores a text under a key, if the browser allows it. */
export function keep(key: string, text: string): void {
  try {
    localStorage.setItem(key, text);
  } catch {
    // The page works without it.
  }
}
