import type { ComponentChild } from 'preact'
import { language } from './language.ts'
import type { Messages, Needs } from './message.ts'
import { weave } from './message.ts'
import { numberText } from './format.ts'

/** Says the messages of one part of the catalogue, in the language spoken now. */
export interface Part<P extends Messages> {
  <K extends keyof P & string>(name: K, ...needs: Needs<P[K], string | number>): string
  /** The same for sentences with more than words in them, such as a link. */
  around<K extends keyof P & string>(name: K, ...needs: Needs<P[K], ComponentChild>): ComponentChild[]
}

/** The parts of the catalogue that have been fetched, in English. */
export const parts = new Map<string, Messages>()

/** A part of the catalogue, in English; its name is how other languages find it. */
export function part<const P extends Messages>(name: string, messages: P): Part<P> {
  parts.set(name, messages)
  const woven = <T>(key: string, needs: Readonly<Record<string, T>> = {}) => {
    const { tag, translate } = language.value
    return weave(translate(name, key, messages[key] ?? key), tag, needs)
  }
  const say = (key: string, needs?: Readonly<Record<string, string | number>>) =>
    woven(key, needs).map((piece) => (typeof piece === 'number' ? numberText(piece) : piece)).join('')
  const around = (key: string, needs?: Readonly<Record<string, ComponentChild>>) =>
    woven(key, needs).map((piece) => (typeof piece === 'number' ? numberText(piece) : piece))
  return Object.assign(say, { around }) as Part<P>
}
