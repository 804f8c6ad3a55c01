/**
 * Names of files that other people chose: how they are shown, compared and saved. The terminal has the same rules; both
 * pass `tests/vectors/names.json`. Names inside blocks stay as they are: they are part of what a CID names.
 *
 * This is a part of the first load. `saved.ts` is not, so it is imported by its own name.
 */
export { plainName, shownName } from '@watchfire/pages/messages'
export { caseless, sameness } from './sameness.ts'
