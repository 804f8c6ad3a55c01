import { effect, signal } from '@preact/signals'
import { english, followLanguage, type Language, type Messages } from '@watchfire/pages/messages'
import { matchLanguage } from './match-language.ts'

export type { Language }

/** The current language. A language is offered only if its catalogue is complete. */
export const language = signal<Language>(english)
followLanguage(() => language.value)

/** A language file in `languages/`: messages by part and name, in the format of `npm run messages`. */
export type Catalogue = { readonly direction: 'ltr' | 'rtl' } & { readonly [part: string]: Messages | string }

const FILES = import.meta.glob<Catalogue>('./languages/*.json', { import: 'default' })

const pseudoLanguages = () => import('./pseudo-languages.ts')

/**
 * Every language besides English, by its tag, loaded when it is needed. The two pseudo-languages transform English: with
 * `en-XA` one can see texts that are missing from the catalogue, and with `ar-XB` whether views work from right
 * to left.
 */
const LANGUAGES: Readonly<Record<string, () => Promise<Language>>> = {
  'en-XA': () => pseudoLanguages().then(({ accented }) => accented),
  'ar-XB': () => pseudoLanguages().then(({ mirrored }) => mirrored),
  ...Object.fromEntries(
    Object.entries(FILES).map(([file, load]) => {
      const tag = file.slice('./languages/'.length, -'.json'.length)
      return [tag, async () => languageOf(tag, await load())]
    }),
  ),
}

export function languageOf(tag: string, catalogue: Catalogue): Language {
  const messages = catalogue as { readonly [part: string]: Messages | undefined }
  return { tag, direction: catalogue.direction, translate: (part, name, message) => messages[part]?.[name] ?? message }
}

/** Switches to the first of these languages that exists, else English. Resolves when it has loaded. */
export async function loadLanguage(tags: readonly string[]): Promise<void> {
  const load = LANGUAGES[matchLanguage(tags, (tag) => Object.hasOwn(LANGUAGES, tag)) ?? '']
  if (load !== undefined) language.value = await load()
}

/** Sets the language and direction of the document. */
export function applyLanguage(): void {
  effect(() => {
    document.documentElement.lang = language.value.tag
    document.documentElement.dir = language.value.direction
  })
}
