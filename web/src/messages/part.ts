import type { ComponentChild } from 'preact'
import { language } from './language.ts'
import type { Messages, MessageValues } from './message.ts'
import { interpolate } from './message.ts'
import { numberText } from './format.ts'

/** Formats the messages of one part of the catalogue in the current language. */
export interface Part<P extends Messages> {
  <K extends keyof P & string>(name: K, ...values: MessageValues<P[K], string | number>): string
  /** The same for values that are nodes, such as links. */
  withNodes<K extends keyof P & string>(name: K, ...values: MessageValues<P[K], ComponentChild>): ComponentChild[]
}

/** The parts of the catalogue that have been loaded, in English. */
export const parts = new Map<string, Messages>()

/** Defines a part of the catalogue in English; other languages refer to it by its name. */
export function part<const P extends Messages>(name: string, messages: P): Part<P> {
  parts.set(name, messages)
  const interpolated = <T>(key: string, values: Readonly<Record<string, T>> = {}) => {
    const { tag, translate } = language.value
    return interpolate(translate(name, key, messages[key] ?? key), tag, values)
  }
  const format = (key: string, values?: Readonly<Record<string, string | number>>) =>
    interpolated(key, values)
      .map((piece) => (typeof piece === 'number' ? numberText(piece) : piece))
      .join('')
  const withNodes = (key: string, values?: Readonly<Record<string, ComponentChild>>) =>
    interpolated(key, values).map((piece) => (typeof piece === 'number' ? numberText(piece) : piece))
  return Object.assign(format, { withNodes }) as Part<P>
}
