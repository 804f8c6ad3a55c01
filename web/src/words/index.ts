/**
 * Every sentence that the application says, by the part of it that says it, and how numbers are written. The parts are
 * modules of their own, so that each is fetched with what speaks it: `shell` and `home` first.
 */
export { agoText, numberText, percentOf, percentText } from './format.ts'
export { language, markLanguage, speakOneOf, type Language } from './language.ts'
export type { Message, Messages } from './message.ts'
export { part, type Part } from './part.ts'
export { secondsText, sizeText, speedText } from './sizes.ts'
