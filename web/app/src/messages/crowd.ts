import { part } from './part.ts'

/** How long a page has been available, and how many people had it open. */
export const crowd = part('crowd', {
  since: { '=1': 'Lit {ago} · at most 1 person at the same time', other: 'Lit {ago} · at most {count} people at the same time' },
  chart: 'People who had this page open since then: {now} now, at most {most}',
  told: 'Tabs tell this to each other, and nobody verifies it.',
})
