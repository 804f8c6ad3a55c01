import { numberText } from './format.ts'
import { currentLanguage } from './language.ts'
import type { Messages, MessageValues } from './message.ts'
import { interpolate } from './message.ts'

/** Formats the messages of one part of the catalogue in the current language. `Node`: what an interface puts into a text. */
export interface Part<P extends Messages, Node = unknown> {
  <K extends keyof P & string>(name: K, ...values: MessageValues<P[K], string | number>): string
  /** The same for values that are nodes, such as links. */
  withNodes<K extends keyof P & string>(name: K, ...values: MessageValues<P[K], Node>): Node[]
}

/** The parts of the catalogue that have been loaded, in English. */
export const parts = new Map<string, Messages>()

/** Defines a part of the catalogue in English; other languages refer to it by its name. */
export function part<const P extends Messages, Node = unknown>(name: string, messages: P): Part<P, Node> {
  parts.set(name, messages)
  const pieces = (key: string, values: Readonly<Record<string, unknown>> = {}) => {
    const { tag, translate } = currentLanguage()
    const interpolated = interpolate(translate(name, key, messages[key] ?? key), tag, values)
    return interpolated.map((piece) => (typeof piece === 'number' ? numberText(piece) : piece))
  }
  const format: unknown = Object.assign((key: string, values?: Readonly<Record<string, unknown>>) => pieces(key, values).join(''), {
    withNodes: pieces,
  })
  return format as Part<P, Node>
}
