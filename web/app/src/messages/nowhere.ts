import { part } from './part.ts'

/** An address without a view. */
export const nowhere = part('nowhere', {
  tab: 'Nothing here · Watchfire',
  title: 'Nothing here',
  why: 'There is no page at {path}. Links to pages look like {example}: perhaps a part of yours is missing.',
  paste: 'Paste the whole link',
  open: 'Open it',
  noLink: 'This is not a link to a page. Paste all of it, from http to its end.',
  createOne: 'Light a page',
})
