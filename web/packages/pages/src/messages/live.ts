import { part } from './part.ts'

/** Problems of live pages. */
export const livePages = part('livePages', {
  incomplete: 'Some entries of this page are not here yet. You can add the next one when they are.',
  overtaken: 'Another tab of this browser has added an entry meanwhile. Try again when you see it here.',
  keyRemoved: 'Nobody can add entries any more: the key of this page was removed from this browser. Begin another page to go on.',
  notStored: 'The entry was not added: this browser cannot write to its storage. Try again.',
  split: 'Nothing can be added any more: the key of this page was also used somewhere else.',
  full: 'This live page has as many entries as it can hold. Begin another one.',
  longText: 'This text is longer than 64 KiB. Add it as a file.',
  noFiles: 'There is no file to add.',
  busy: 'Too many entries are being added at the same time. Wait a moment.',
})
