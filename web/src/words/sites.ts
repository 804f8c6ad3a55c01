import { part } from './part.ts'

/** A folder that is shown as a site. */
export const sites = part('sites', {
  frame: 'The site',
  outside: 'That link leads out of this page, to {address}. Nothing was sent there.',
  lost: 'The site tried to go elsewhere, and was kept here.',
  back: 'Back to the site',
  oneByOne: 'Shown one page at a time, without its links from page to page: this server has no domain for sites.',
  oneByOneFailed: 'Shown one page at a time, without its links from page to page: its own origin cannot be used here ({reason}).',
  noAnswer: 'it did not answer',
  absent: 'Not here',
  absentFile: 'This page has no file “{path}”.',
  absentAddress: 'This address means nothing here.',
  toStart: 'To the start of the page',
  folder: 'A folder',
  folderHere: 'It is here',
  files: 'Files',
  more: { other: 'and {count} more' },
  above: 'the folder above',
  showMore: { other: 'Show {count} more' },
  tooMuch: 'Too much was asked at once.',
})
