import { part } from './part.ts'

/** PDFs. */
export const pdf = part('pdf', {
  document: 'The document',
  pages: { '=1': '1 page', other: '{count} pages' },
  page: 'Page {page} of {count}',
  cut: { other: 'Only the first {count} pages are shown. Save the file to read the others.' },
  inside: 'Go to another place in this document',
  print: 'Only the pages that were in view are printed here. Save the file, and print it in another program.',
  locked: 'This PDF has a password. Save it to open it in another program.',
  broken: 'This PDF cannot be shown here: {reason} Save it to open it in another program.',
})
