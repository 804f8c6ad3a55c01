import { part } from './part.ts'

/** The pages that this tab keeps sharing. */
export const kept = part('kept', {
  title: 'Burning in this tab',
  tab: { '=0': 'Burning in this tab · Watchfire', other: '({count}) burning in this tab · Watchfire' },
  lead:
    'This tab shares these pages with everyone who opens them, as long as it stays open. ' +
    'It may be in the background, but phones stop tabs there.',
  none: 'No page burns in this tab. Light one, or paste the link of a page above.',
  link: 'Link of a page',
  hold: 'Keep sharing it',
  noLink: 'This is not a link to a page of this server. Paste the whole link.',
  full: 'This tab already shares {count} pages, the most it can. Stop one, or use another tab.',
  stop: 'Stop sharing',
  stopOne: 'Stop sharing {name}',
  sent: '{size} sent',
  loading: '{percent} loaded',
  searching: 'searching',
  waiting: 'waiting for a copy',
  refused: 'cannot be shown',
  locked: 'private, no key',
  last: 'only copy',
  all: 'Manage them',
})
