import { part } from './part.ts'

/** What the browser's disk has no room or place for. */
export const storage = part('storage', {
  noPlace: 'This browser lends this site no place on its disk, as in a private window perhaps.',
  full: 'The disk space that this browser lends this site is full.',
  unwritable: 'This browser could not write to its disk.',
  inMemory: '{why} What comes from now on is kept in memory, up to {room}, and a reload fetches it again.',
  tooLittle: '{needed} of this page are to come, and this browser lends this site {given} of its disk: it may not fit.',
  lost: 'A part of this page is no longer on the disk where this browser kept it. Reload to fetch it again.',
})
