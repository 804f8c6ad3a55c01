/**
 * A sentence. `{name}` stands for what is put there. One of several forms is chosen by `count`: the form of exactly that
 * number, such as `=1`, or else the form that the language's rules of plurals name.
 */
export type Message = string | Forms
export type Forms = { readonly other: string } & { readonly [form in Intl.LDMLPluralRule | `=${number}`]?: string }

export type Messages = Readonly<Record<string, Message>>

type Places<S> = S extends `${string}{${infer Name}}${infer Rest}` ? Name | Places<Rest> : never
type PlacesOf<M> = M extends string ? Places<M> : 'count' | Places<M[keyof M]>

/**
 * What a message needs to be said: nothing, or something for each of its places. They are read from the type of the
 * text, so one with places is written as one literal: the type of a sum is only `string`.
 */
export type Needs<M, Value> = [PlacesOf<M>] extends [never] ? [] : [Readonly<Record<PlacesOf<M>, Value>>]

/** The words of a message and what stands between them, in order. */
export function weave<T>(message: Message, tag: string, needs: Readonly<Record<string, T>>): (string | T)[] {
  const pieces: (string | T)[] = []
  for (const [i, piece] of formOf(message, tag, needs).split(/\{(\w+)\}/).entries()) {
    const value = i % 2 === 1 ? needs[piece] : piece
    if (value !== undefined && value !== '') pieces.push(value)
  }
  return pieces
}

function formOf(message: Message, tag: string, needs: Readonly<Record<string, unknown>>): string {
  if (typeof message === 'string') return message
  const count = Number(needs['count'])
  return message[`=${count}`] ?? message[pluralRules(tag).select(count)] ?? message.other
}

const rules = new Map<string, Intl.PluralRules>()

function pluralRules(tag: string): Intl.PluralRules {
  let known = rules.get(tag)
  if (known === undefined) rules.set(tag, (known = new Intl.PluralRules(tag)))
  return known
}
