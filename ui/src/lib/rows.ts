// Keys and timing that tree and list share.

/** Return the row that a key moves to, or null if the key does not move. */
export function moveRow(key: string, active: number, total: number, page: number): number | null {
  const moves: Record<string, number> = {
    ArrowDown: active + 1,
    ArrowUp: active - 1,
    PageDown: active + page,
    PageUp: active - page,
    Home: 0,
    End: total - 1,
  };
  const target = moves[key];
  return target === undefined || total === 0 ? null : Math.min(total - 1, Math.max(0, target));
}

/** Call a function at most once per interval, and once more after the last call; one call at a time. */
export function throttle(interval: number, action: () => Promise<unknown>): () => void {
  let running = false;
  let again = false;
  const run = async () => {
    running = true;
    await action();
    setTimeout(() => {
      running = false;
      if (again) {
        again = false;
        void run();
      }
    }, interval);
  };
  return () => {
    if (running) again = true;
    else void run();
  };
}

/** Shorten a URI for a narrow column: without the scheme of files, decoded if possible. */
export function shortUri(uri: string): string {
  const text = uri.replace(/^file:\/\//, "");
  try {
    return decodeURI(text);
  } catch {
    return text;
  }
}

/** Return the folder of a URI, shortened to its last two names. */
export function folderOf(uri: string): string {
  const names = shortUri(uri).split("/").slice(0, -1);
  return names.length > 3 ? `…/${names.slice(-2).join("/")}` : names.join("/") || shortUri(uri);
}
