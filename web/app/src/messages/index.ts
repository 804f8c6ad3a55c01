/**
 * All texts of the application, by part, and the formats of numbers. Each part is a module of its own, so that it is
 * loaded with the view that uses it; `shell` and `home` are loaded first.
 */
export { agoText, numberText, percentOf, percentText } from '@watchfire/pages/messages'
export { language, applyLanguage, loadLanguage, type Language } from './language.ts'
export type { Message, Messages } from '@watchfire/pages/messages'
export { part, type Part } from './part.ts'
export { secondsText, sizeText, speedText } from '@watchfire/pages/messages'
