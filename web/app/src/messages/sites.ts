import { part } from './part.ts'

/** A folder shown as a site. */
export const sites = part('sites', {
  frame: 'The site',
  outside: 'This link leads to another site and was not opened: {address}',
  lost: 'The site tried to leave this page and was stopped.',
  back: 'Back to the site',
  oneByOne: 'Shown one page at a time, without links between the pages, because this server has no domain for sites.',
  oneByOneFailed: 'Shown one page at a time, without links between the pages, because the site could not be started: {reason}.',
  noAnswer: 'it did not answer',
  absent: 'Not found',
  absentFile: 'This page has no file “{path}”.',
  absentAddress: 'This address is not valid.',
  toStart: 'Go to the start page',
  folder: 'Folder',
  folderHere: 'Open the folder',
  files: 'Files',
  more: { other: 'and {count} more' },
  above: 'Parent folder',
  tooMuch: 'The site sent too many requests at once. Reload it.',
})
