// The token of the launch: it arrives in the fragment of the printed link and stays in this tab.

const NAME = "carrel-token";

/** Take the token from the fragment, store it for this tab and remove it from the address. */
export function takeToken(): string | null {
  const match = /^#token=([^&]+)/.exec(location.hash);
  if (match?.[1]) {
    sessionStorage.setItem(NAME, decodeURIComponent(match[1]));
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  return token();
}

export const token = (): string | null => sessionStorage.getItem(NAME);
