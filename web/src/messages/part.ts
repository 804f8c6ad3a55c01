import type { ComponentChild } from 'preact'
import { language } from './language.ts'
import type { Messages, MessageValues } from './message.ts'
import { interpolate } from './message.ts'
import { numberText } from './format.ts'

/** Formats the messages of one part of the catalogue in the current language. */
export interface Part<P extends Messages> {
  <K extends keyof P & string>(name: K, ...needs: MessageValues<P[K], string | number>): string
  /** The same for values that are nodes, such as links. */
  withNodes<K extends keyof P & string>(name: K, ...needs: MessageValues<P[K], ComponentChild>): ComponentChild[]
}

/** The parts of the catalogue that have been loaded, in English. */
export const parts = new Map<string, Messages>()

/** Defines a part of the catalogue in English; other languages refer to it by its name. */
export function part<const P extends Messages>(name: string, messages: P): Part<P> {
  parts.set(name, messages)
  const woven = <T>(key: string, needs: Readonly<Record<string, T>> = {}) => {
    const { tag, translate } = language.value
    return interpolate(translate(name, key, messages[key] ?? key), tag, needs)
  }
  const say = (key: string, needs?: Readonly<Record<string, string | number>>) =>
    woven(key, needs).map((piece) => (typeof piece === 'number' ? numberText(piece) : piece)).join('')
  const withNodes = (key: string, needs?: Readonly<Record<string, ComponentChild>>) =>
    woven(key, needs).map((piece) => (typeof piece === 'number' ? numberText(piece) : piece))
  return Object.assign(say, { withNodes }) as Part<P>
}
