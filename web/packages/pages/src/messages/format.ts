import { currentLanguage } from './language.ts'

/** A number in the format of the current language. */
export function numberText(value: number): string {
  return made('number', (tag) => new Intl.NumberFormat(tag, { maximumFractionDigits: 1, useGrouping: 'min2' })).format(value)
}

/** Whole percent, such as "42%". */
export function percentText(percent: number): string {
  return made('percent', (tag) => new Intl.NumberFormat(tag, { style: 'percent' })).format(percent / 100)
}

const UNITS = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
] as const

/** The time since an event, such as "5 minutes ago". */
export function agoText(milliseconds: number): string {
  const seconds = Math.max(1, milliseconds / 1000)
  const [unit, length] = UNITS.find(([, length]) => seconds >= length) ?? UNITS[3]
  return made('ago', (tag) => new Intl.RelativeTimeFormat(tag)).format(-Math.floor(seconds / length), unit)
}

/** The share in whole percent; 100 only when complete. */
export function percentOf(part: number, whole: number): number {
  if (whole <= 0 || part >= whole) return 100
  return Math.min(99, Math.floor((part / whole) * 100))
}

/** Formatters are expensive to create, so the latest of each kind is cached. */
const formats = new Map<string, { tag: string; format: unknown }>()

function made<T>(kind: string, make: (tag: string) => T): T {
  const { tag } = currentLanguage()
  const before = formats.get(kind)
  if (before?.tag === tag) return before.format as T
  const format = make(tag)
  formats.set(kind, { tag, format })
  return format
}
