import { parts } from './part.ts'
import type { Message, Messages } from './message.ts'
import { refusals } from './refusals.ts'

// For tests and `npm run messages`: the application itself never loads the whole catalogue at once.
const modules = import.meta.glob(['./*.ts', '!./*.test.ts', '!./catalogue.ts'], { eager: true })

/** Every message in English, by part and name. */
export function fullCatalogue(): Readonly<Record<string, Messages>> {
  if (Object.keys(modules).length === 0) throw new Error('no words were found')
  return Object.fromEntries([...parts, ['refusals', refusals] as const].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** The errors of a language file, one line each: missing or unknown messages, placeholders, and plural forms. */
export function catalogueErrors(tag: string, catalogue: unknown): string[] {
  const faults: string[] = []
  if (!isRecord(catalogue)) return ['it is no object']
  if (catalogue['direction'] !== 'ltr' && catalogue['direction'] !== 'rtl') faults.push('"direction" is neither "ltr" nor "rtl"')
  const english = fullCatalogue()
  for (const [part, messages] of Object.entries(english)) {
    const theirs = catalogue[part]
    for (const [name, message] of Object.entries(messages)) {
      const translated = isRecord(theirs) ? theirs[name] : undefined
      faults.push(...messageErrors(message, translated, tag).map((fault) => `${part}.${name} ${fault}`))
    }
    if (!isRecord(theirs)) continue
    for (const name of Object.keys(theirs)) if (!Object.hasOwn(messages, name)) faults.push(`${part}.${name} is no message`)
  }
  for (const part of Object.keys(catalogue)) {
    if (part !== 'direction' && !Object.hasOwn(english, part)) faults.push(`${part} is no part`)
  }
  return faults
}

function messageErrors(english: Message, theirs: unknown, tag: string): string[] {
  if (theirs === undefined) return ['is missing']
  const places = placesOf(english)
  if (typeof english === 'string') {
    if (typeof theirs !== 'string' || theirs.trim() === '') return ['is no text']
    return samePlaces(places, placesOf(theirs)) ? [] : [`has other places than ${[...places].join(', ') || 'none'}`]
  }
  if (!isRecord(theirs)) return ['has no forms']
  const faults: string[] = []
  for (const rule of new Intl.PluralRules(tag).resolvedOptions().pluralCategories) {
    if (typeof theirs[rule] !== 'string') faults.push(`lacks the form "${rule}"`)
  }
  for (const [form, text] of Object.entries(theirs)) {
    if (typeof text !== 'string' || text.trim() === '') faults.push(`is no text as "${form}"`)
    // A form may omit placeholders, as "one file" does; it cannot have others.
    else if (![...placesOf(text)].every((place) => places.has(place))) faults.push(`has unknown places as "${form}"`)
  }
  return faults
}

function placesOf(message: Message): Set<string> {
  const texts = typeof message === 'string' ? [message] : ['{count}', ...Object.values(message)]
  return new Set(texts.flatMap((text) => [...(text ?? '').matchAll(/\{(\w+)\}/g)].map(([, place]) => place ?? '')))
}

function samePlaces(a: Set<string>, b: Set<string>): boolean {
  return a.size === b.size && [...a].every((place) => b.has(place))
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
