import { effect, signal } from '@preact/signals'
import { choose } from './choose.ts'
import type { Message, Messages } from './message.ts'

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

/** A language as a file of `languages/`: its messages by part and name, as `npm run words` writes them out in English. */
export type Catalogue = { readonly direction: 'ltr' | 'rtl' } & { readonly [part: string]: Messages | string }

const FILES = import.meta.glob<Catalogue>('./languages/*.json', { import: 'default' })

/**
 * Every language besides English, by its tag, fetched when it is wanted. The two that are named here are nobody's: they
 * are English in disguise, by which anyone can see whether a sentence is missing from the catalogue (`en-XA`) and whether
 * the pages can be read from right to left (`ar-XB`).
 */
const LANGUAGES: Readonly<Record<string, () => Promise<Language>>> = {
  'en-XA': () => import('./disguise.ts').then(({ accented }) => accented),
  'ar-XB': () => import('./disguise.ts').then(({ mirrored }) => mirrored),
  ...Object.fromEntries(Object.entries(FILES).map(([file, load]) => {
    const tag = file.slice('./languages/'.length, -'.json'.length)
    return [tag, async () => languageOf(tag, await load())]
  })),
}

/** The language that a catalogue holds. */
export function languageOf(tag: string, catalogue: Catalogue): Language {
  const messages = catalogue as { readonly [part: string]: Messages | undefined }
  return { tag, direction: catalogue.direction, translate: (part, name, message) => messages[part]?.[name] ?? message }
}

/** Speaks the first of these languages that it can; English when there is none. Settles when it is spoken. */
export async function speakOneOf(tags: readonly string[]): Promise<void> {
  const load = LANGUAGES[choose(tags, (tag) => Object.hasOwn(LANGUAGES, tag)) ?? '']
  if (load !== undefined) language.value = await load()
}

/** Tells the document which language it is in, and from which side it is read. */
export function markLanguage(): void {
  effect(() => {
    document.documentElement.lang = language.value.tag
    document.documentElement.dir = language.value.direction
  })
}
