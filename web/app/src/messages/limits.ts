import { part } from './part.ts'

/** The limits of a server that people reach who write and read pages. */
export const limits = part('limits', {
  title: 'What are the limits?',
  page: 'A page may have at most {size}.',
  people: { '=1': 'Only 1 person at a time can have a page open.', other: 'At most {count} people can have the same page open.' },
  pages: {
    '=1': 'Your network can have only 1 page open at a time.',
    other: 'Your network can have at most {count} pages open at a time.',
  },
  all: 'All limits of this server, with their technical names',
})
