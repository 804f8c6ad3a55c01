/**
 * A text. `{name}` is a placeholder. A message with several forms is selected by `count`: by the form for exactly that
 * number, such as `=1`, or else by the plural rules of the language.
 */
export type Message = string | Forms
export type Forms = { readonly other: string } & { readonly [form in Intl.LDMLPluralRule | `=${number}`]?: string }

export type Messages = Readonly<Record<string, Message>>

type Placeholders<S> = S extends `${string}{${infer Name}}${infer Rest}` ? Name | Placeholders<Rest> : never
type PlaceholdersOf<M> = M extends string ? Placeholders<M> : 'count' | Placeholders<M[keyof M]>

/**
 * The values that a message requires: none, or one per placeholder. The compiler reads them from the literal type, so a
 * text with placeholders must be one literal, because a concatenation has the type `string`.
 */
export type MessageValues<M, Value> = [PlaceholdersOf<M>] extends [never] ? [] : [Readonly<Record<PlaceholdersOf<M>, Value>>]

/** The text of a message and the values of its placeholders, in order. */
export function interpolate<T>(message: Message, tag: string, values: Readonly<Record<string, T>>): (string | T)[] {
  const pieces: (string | T)[] = []
  for (const [i, piece] of formOf(message, tag, values)
    .split(/\{(\w+)\}/)
    .entries()) {
    const value = i % 2 === 1 ? values[piece] : piece
    if (value !== undefined && value !== '') pieces.push(value)
  }
  return pieces
}

function formOf(message: Message, tag: string, values: Readonly<Record<string, unknown>>): string {
  if (typeof message === 'string') return message
  const count = Number(values['count'])
  return message[`=${count}`] ?? message[pluralRules(tag).select(count)] ?? message.other
}

const rules = new Map<string, Intl.PluralRules>()

function pluralRules(tag: string): Intl.PluralRules {
  const found = rules.get(tag) ?? new Intl.PluralRules(tag)
  rules.set(tag, found)
  return found
}
