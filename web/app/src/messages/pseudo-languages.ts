import type { Language } from './language.ts'
import type { Forms, Message } from '@watchfire/pages/messages'

const PLAIN = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'
const ACCENTED = 'ȧƀƈḓḗƒɠħīĵķŀḿƞǿƥɋřşŧŭṽẇẋẏẑȦƁƇḒḖƑƓĦĪĴĶĿḾȠǾƤɊŘŞŦŬṼẆẊẎẐ'
const letters = new Map([...PLAIN].map((letter, i) => [letter, [...ACCENTED][i] ?? letter]))

/** English with accents, slightly longer, and in brackets that show its ends. */
export const accented: Language = {
  tag: 'en-XA',
  direction: 'ltr',
  translate: (_part, _name, english) => formsOf(english, (words) => `⟦${accentText(words)}⟧`),
}

/** English that is written and read from right to left. */
export const mirrored: Language = {
  tag: 'ar-XB',
  direction: 'rtl',
  // RLO and PDF reverse the letters; placeholders keep their own direction.
  translate: (_part, _name, english) =>
    formsOf(english, (words) =>
      pieces(
        words,
        (piece) => `\u202e${piece}\u202c`,
        (place) => `\u2068${place}\u2069`,
      ),
    ),
}

function accentText(words: string): string {
  const plain = (piece: string) => Array.from(piece, (letter) => letters.get(letter) ?? letter).join('')
  const longer = '·'.repeat(Math.ceil(words.length / 8))
  return pieces(words, plain, (place) => place) + longer
}

/** Transforms the text of a message and leaves its placeholders unchanged. */
function pieces(words: string, word: (piece: string) => string, place: (piece: string) => string): string {
  return words
    .split(/(\{\w+\})/)
    .map((piece, i) => (i % 2 === 1 ? place(piece) : piece && word(piece)))
    .join('')
}

function formsOf(english: Message, change: (words: string) => string): Message {
  if (typeof english === 'string') return change(english)
  return Object.fromEntries(Object.entries(english).map(([form, words]) => [form, change(words ?? '')])) as Forms
}
