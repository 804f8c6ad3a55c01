/**
 * Names of files that other people chose: how they are shown, compared and saved. The terminal has the same rules; both
 * pass `tests/vectors/names.json`. Names inside blocks stay as they are: they are part of what a CID names.
 */
export { cutName, cutText } from './cut.ts'
export { plainName, shownName } from './hidden.ts'
export { linkedName } from './linked.ts'
export { sameness } from './sameness.ts'
export { safeName, safePaths } from './saved.ts'
