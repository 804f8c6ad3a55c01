const PREFIX = 'watchfire:entry:'

/** The beginning of the next entry of a page, which its publisher typed before a reload of the tab. */
export function typedWords(cid: string): string {
  try {
    return sessionStorage.getItem(PREFIX + cid) ?? ''
  } catch {
    return ''
  }
}

/** Keeps what the publisher has typed over a reload of the tab, if the browser has a place for it. */
export function keepTypedWords(cid: string, words: string): void {
  try {
    sessionStorage.removeItem(PREFIX + cid)
    if (words !== '') sessionStorage.setItem(PREFIX + cid, words)
  } catch {
    // There is no storage, or the text is too long for it.
  }
}
