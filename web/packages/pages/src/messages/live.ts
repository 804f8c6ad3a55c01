import { part } from './part.ts'

/** Problems of live pages. */
export const livePages = part('livePages', {
  split: 'Nothing can be added any more: the key of this page was also used somewhere else.',
  full: 'This live page has as many entries as it can hold. Begin another one.',
  longText: 'This text is longer than 64 KiB. Add it as a file.',
  noFiles: 'There is no file to add.',
  busy: 'Too many entries are being added at the same time. Wait a moment.',
})
