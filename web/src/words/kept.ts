import { part } from './part.ts'

/** The pages that this tab keeps burning. */
export const kept = part('kept', {
  title: 'Burning in this tab',
  tab: { '=0': 'Burning in this tab · Watchfire', other: '({count}) burning in this tab · Watchfire' },
  lead: 'Each of these pages is served to whoever asks, as long as this tab is open. ' +
    'It may lie in the background; on phones, browsers stop tabs that do.',
  none: 'No page burns in this tab. Light one, or open a link here and leave it burning.',
  link: 'Link of a page',
  hold: 'Keep it burning',
  noLink: 'That is no link to a page of this server.',
  full: 'This tab holds {count} pages already. Let one go, or use another tab.',
  letGo: 'Let go',
  letGoOf: 'Let go of {name}',
  given: 'gave {size}',
  coming: '{percent} here',
  searching: 'looking for it',
  waiting: 'waiting for it',
  refused: 'cannot be shown',
  locked: 'private, without its key',
  last: 'only here',
  all: 'Look after them',
})
