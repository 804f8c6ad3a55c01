import { part } from './part.ts'

/** PDFs. */
export const pdf = part('pdf', {
  document: 'The document',
  pages: { '=1': '1 page', other: '{count} pages' },
  page: 'Page {page} of {count}',
  locked: 'This PDF has a password. Save it to open it in another program.',
  broken: 'This PDF cannot be shown here: {reason} Save it to open it in another program.',
})
