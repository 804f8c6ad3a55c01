/**
 * Texts for people, by part, and the formats of numbers. An application sets the language with `followLanguage`; it may
 * define parts of its own. The texts of errors are in `problems.ts`, because an application needs them later.
 */
export { agoText, numberText, percentOf, percentText } from './format.ts'
export { english, followLanguage, type Language } from './language.ts'
export { interpolate, type Forms, type Message, type Messages, type MessageValues } from './message.ts'
export { plainName, shownName } from './names.ts'
export { part, parts, type Part } from './part.ts'
export { secondsText, sizeText, speedText } from './sizes.ts'
