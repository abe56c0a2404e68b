// Choices of the user, kept in localStorage.

export type Theme = "auto" | "light" | "dark";
export type Language = "en" | "de" | "zh";

const read = (name: string): string | null => {
  try {
    return localStorage.getItem(`carrel-${name}`);
  } catch {
    return null;
  }
};
const write = (name: string, value: string | null): void => {
  try {
    if (value === null) localStorage.removeItem(`carrel-${name}`);
    else localStorage.setItem(`carrel-${name}`, value);
  } catch {
    // private windows may refuse storage
  }
};

/** Return the first language of the browser that the page has, or English. */
export function preferred(languages: readonly string[]): Language {
  for (const language of languages) {
    const short = language.slice(0, 2).toLowerCase();
    if (short === "en" || short === "de" || short === "zh") return short;
  }
  return "en";
}

class Settings {
  theme = $state<Theme>((read("theme") as Theme | null) ?? "auto");
  chosenLanguage = $state<Language | null>(read("language") as Language | null);
  language = $derived(this.chosenLanguage ?? preferred(navigator.languages));

  setTheme(theme: Theme): void {
    this.theme = theme;
    write("theme", theme === "auto" ? null : theme);
    this.apply();
  }

  setLanguage(language: Language | null): void {
    this.chosenLanguage = language;
    write("language", language);
    this.apply();
  }

  /** Set the language and the theme of the document. */
  apply(): void {
    const root = document.documentElement;
    root.lang = this.language === "zh" ? "zh-Hans" : this.language;
    if (this.theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = this.theme;
  }

  /** Read and write the size of a region, in pixels. */
  size(name: string, fallback: number): number {
    return Number(read(`size-${name}`)) || fallback;
  }

  setSize(name: string, value: number): void {
    write(`size-${name}`, String(Math.round(value)));
  }
}

export const settings = new Settings();
