import { parts, type Message, type Messages } from '@watchfire/pages/messages'
import '@watchfire/pages/problems'
import { refusals } from './refusals.ts'

// For tests and `npm run messages`: the application itself never loads the whole catalogue at once.
const modules = import.meta.glob(['./*.ts', '!./*.test.ts', '!./catalogue.ts'], { eager: true })

/** Every message in English, by part and name. */
export function fullCatalogue(): Readonly<Record<string, Messages>> {
  if (Object.keys(modules).length === 0) throw new Error('no messages were found')
  return Object.fromEntries([...parts, ['refusals', refusals] as const].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** The errors of a language file, one line each: missing or unknown messages, placeholders, and plural forms. */
export function catalogueErrors(tag: string, catalogue: unknown): string[] {
  const errors: string[] = []
  if (!isRecord(catalogue)) return ['not an object']
  if (catalogue['direction'] !== 'ltr' && catalogue['direction'] !== 'rtl') errors.push('"direction" is neither "ltr" nor "rtl"')
  const english = fullCatalogue()
  for (const [part, messages] of Object.entries(english)) {
    const theirs = catalogue[part]
    for (const [name, message] of Object.entries(messages)) {
      const translated = isRecord(theirs) ? theirs[name] : undefined
      errors.push(...messageErrors(message, translated, tag).map((error) => `${part}.${name} ${error}`))
    }
    if (!isRecord(theirs)) continue
    for (const name of Object.keys(theirs)) {
      if (!Object.hasOwn(messages, name)) errors.push(`${part}.${name} is not a known message`)
    }
  }
  for (const part of Object.keys(catalogue)) {
    if (part !== 'direction' && !Object.hasOwn(english, part)) errors.push(`${part} is not a known part`)
  }
  return errors
}

function messageErrors(english: Message, theirs: unknown, tag: string): string[] {
  if (theirs === undefined) return ['is missing']
  const placeholders = placeholdersOf(english)
  if (typeof english === 'string') {
    if (typeof theirs !== 'string' || theirs.trim() === '') return ['is not a text']
    if (samePlaceholders(placeholders, placeholdersOf(theirs))) return []
    return [`has other placeholders than ${[...placeholders].join(', ') || 'none'}`]
  }
  if (!isRecord(theirs)) return ['has no forms']
  const errors: string[] = []
  for (const rule of new Intl.PluralRules(tag).resolvedOptions().pluralCategories) {
    if (typeof theirs[rule] !== 'string') errors.push(`lacks the form "${rule}"`)
  }
  for (const [form, text] of Object.entries(theirs)) {
    if (typeof text !== 'string' || text.trim() === '') errors.push(`is not a text as "${form}"`)
    // A form may omit placeholders, as "one file" does; it cannot have others.
    else if (![...placeholdersOf(text)].every((name) => placeholders.has(name))) errors.push(`has unknown placeholders as "${form}"`)
  }
  return errors
}

function placeholdersOf(message: Message): Set<string> {
  const texts = typeof message === 'string' ? [message] : ['{count}', ...Object.values(message)]
  return new Set(texts.flatMap((text) => [...(text ?? '').matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? '')))
}

function samePlaceholders(a: Set<string>, b: Set<string>): boolean {
  return a.size === b.size && [...a].every((placeholder) => b.has(placeholder))
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
