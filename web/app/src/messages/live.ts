import { part } from './part.ts'

/** Live pages: the switch that makes one, its entries, and the form that adds to it. */
export const live = part('live', {
  live: 'Live',
  liveMeans:
    'The page grows: you add texts and files while people read, and they see each at once. Everybody with the link can read it. ' +
    'Only this tab can add to it, until you close it.',
  title: 'Title of the page',
  nameless: 'Live page',
  status: { '=0': 'Live · nothing has been added yet', '=1': 'Live · 1 entry', other: 'Live · {count} entries' },
  ended: { '=1': '1 entry', other: '{count} entries' },
  writerLeft: 'The writer left, and nobody else has been here since {time}. No entries can follow unless the writer comes back.',
  writerAbsent: 'The writer is not here. No entries can follow unless the writer comes back.',
  catchingUp: 'Loading more entries…',
  entries: 'Entries, the newest first',
  number: 'Entry {number}',
  disputed: 'disputed',
  earlier: 'Show earlier entries',
  moreFiles: { '=1': 'and 1 more file', other: 'and {count} more files' },
  split:
    'This page has forked at entry {number}: its key has signed two different entries with this number. The key may be stolen. Earlier entries are not in doubt. Nobody can add entries any more; the publisher can begin another page.',
  invalid: 'Entry {number} is not valid, so the page ends before it. The program that made it has an error.',
  full: 'This page is full: nothing more can be added to it. The entries stay as long as somebody has the page open.',
  add: 'Add to this page',
  box: 'Next entry',
  invitation: 'Write the next entry…',
  text: 'Text',
  markdown: 'Markdown',
  format: 'Format',
  addFiles: 'Add files',
  submit: 'Add entry',
  adding: 'Adding…',
  notAdded: 'The entry could not be added. Try again.',
  onlyThisTab:
    'Only this tab can add entries. You can reload it. After you close it, nobody can add any more, and the entries stay as long as ' +
    'somebody has the page open.',
  onlyUntilReload:
    'Only this tab can add entries, because this browser cannot store the key that signs them. After you close or reload it, nobody ' +
    'can add any more, and the entries stay as long as somebody has the page open.',
})
