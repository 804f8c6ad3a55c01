import type { Message } from './message.ts'

export interface Language {
  /** Its BCP 47 tag, which also selects number formats and plural rules. */
  readonly tag: string
  readonly direction: 'ltr' | 'rtl'
  /** Its text for a message. */
  translate(part: string, name: string, english: Message): Message
}

export const english: Language = { tag: 'en', direction: 'ltr', translate: (_part, _name, message) => message }

let read = (): Language => english

/** The language of all texts from now on. */
export const currentLanguage = (): Language => read()

/** Sets the function that is called for the language of each text. Without one, texts are in English. */
export function followLanguage(language: () => Language): void {
  read = language
}
