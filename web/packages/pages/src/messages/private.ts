import { part } from './part.ts'

/** Problems with private pages, by the names that `PrivateProblem` has for them. */
export const privatePages = part('private', {
  'not-private': 'This page is not private, although its link has a key: somebody changed the link.',
  version: 'This private page was made by a newer version of this app. Reload to update.',
  'wrong-key': 'The key in this link does not open this page. Ask the person who sent you the link for the whole link.',
  changed: 'This private page was changed after it was made: part {record} is not authentic.',
  length: 'This private page is damaged: data is missing, or there is too much.',
  'too-large': 'This is more than a private page can hold.',
  cut: 'The file list of this private page ends too early.',
  trailing: 'The file list of this private page has extra data at its end.',
  'too-long': 'The file list of this private page is too long.',
  'too-many-entries': 'The file list of this private page has too many entries.',
  kind: 'The file list of this private page is of an unknown kind.',
  'not-one-file': 'The file list of this private page is not that of a single file.',
  utf8: 'The file list of this private page is not valid text.',
  path: 'The file list of this private page contains an invalid path.',
  order: 'The file list of this private page is not sorted.',
  size: 'The file list of this private page contains impossible sizes.',
})
