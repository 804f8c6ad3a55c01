import { part } from './part.ts'

/** Problems with the disk space that the browser gives this site. */
export const storage = part('storage', {
  noPlace: 'This browser gives this site no disk space, perhaps in a private window.',
  full: 'The disk space that this browser gives this site is full.',
  unwritable: 'This browser could not write to its disk.',
  inMemory: '{why} New data is kept in memory, up to {room}. A reload loads it again.',
  tooLittle: '{needed} of this page are still missing, and this browser gives this site {given} of disk space. It may not fit.',
  lost: 'A part of this page is gone from this browser’s disk. Reload to load it again.',
})
