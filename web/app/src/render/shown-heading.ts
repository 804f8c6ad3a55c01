import { signal } from '@preact/signals'

/** The title in the Markdown that is shown; `null` when it has none. Only the view of a single text reads it. */
export const shownHeading = signal<string | null>(null)

/** The words of the first heading of a text, if it is one of the two highest levels. */
export function headingIn(text: ParentNode): string | null {
  return text.querySelector('h1, h2')?.textContent?.trim() || null
}
