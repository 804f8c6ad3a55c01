import { effect, signal } from '@preact/signals'
import type { Message } from './message.ts'

/** A language that the application speaks. */
export interface Language {
  /** Its BCP 47 tag, by which numbers and plurals are formed too. */
  readonly tag: string
  readonly direction: 'ltr' | 'rtl'
  /** Its words for the message of that name; all of the catalogue, or it is not offered. */
  translate(part: string, name: string, english: Message): Message
}

const english: Language = { tag: 'en', direction: 'ltr', translate: (_part, _name, message) => message }

/** The language spoken now. */
export const language = signal<Language>(english)

/**
 * Every language besides English, by its tag, fetched when it is wanted. The two that are here are nobody's: they are
 * English in disguise, by which anyone can see whether a sentence is missing from the catalogue (`en-XA`) and whether
 * the pages can be read from right to left (`ar-XB`).
 */
const LANGUAGES: Readonly<Record<string, () => Promise<Language>>> = {
  'en-XA': () => import('./disguise.ts').then(({ accented }) => accented),
  'ar-XB': () => import('./disguise.ts').then(({ mirrored }) => mirrored),
}

/** Speaks the first of these languages that it can; English when there is none. Settles when it is spoken. */
export async function speakOneOf(tags: readonly string[]): Promise<void> {
  for (const tag of tags) {
    if (tag === 'en' || (tag.startsWith('en-') && !Object.hasOwn(LANGUAGES, tag))) return
    const load = Object.hasOwn(LANGUAGES, tag) ? LANGUAGES[tag] : undefined
    if (load === undefined) continue
    language.value = await load()
    return
  }
}

/** Tells the document which language it is in, and from which side it is read. */
export function markLanguage(): void {
  effect(() => {
    document.documentElement.lang = language.value.tag
    document.documentElement.dir = language.value.direction
  })
}
