import type { PrivateProblem } from '../private/index.ts'
import { part } from './part.ts'

/** What goes wrong with private pages. */
const sealed = part('sealed', {
  notPrivate: 'This page is not private, although its link has a key: somebody changed the link.',
  version: 'This private page was made by a later version, which is not understood here.',
  wrongKey: 'The key in this link does not open this page.',
  changed: 'This private page was changed after it was made: part {record} is not what was sealed.',
  length: 'This private page is not whole: a part is missing, or too much is there.',
  tooLarge: 'This is more than a private page can hold.',
  cut: 'The names in this private page end too early.',
  trailing: 'The names in this private page have something behind them.',
  tooLong: 'The names in this private page are too long.',
  tooMany: 'The names in this private page are too many.',
  kind: 'The names in this private page are of an unknown kind.',
  notOneFile: 'The names in this private page are not those of one file.',
  utf8: 'The names in this private page are no text.',
  path: 'The names in this private page lead to places where no file can be.',
  order: 'The names in this private page are not in their order.',
  size: 'The names in this private page come with impossible sizes.',
})

/** Why a private page cannot be made or opened. */
export function sealedSentence(problem: PrivateProblem): string {
  switch (problem.kind) {
    case 'not-private':
      return sealed('notPrivate')
    case 'version':
      return sealed('version')
    case 'wrong-key':
      return sealed('wrongKey')
    case 'changed':
      return sealed('changed', { record: problem.record })
    case 'length':
      return sealed('length')
    case 'too-large':
      return sealed('tooLarge')
    case 'index':
      return indexSentence(problem.index)
  }
}

function indexSentence(index: Extract<PrivateProblem, { kind: 'index' }>['index']): string {
  switch (index) {
    case 'too-long':
      return sealed('tooLong')
    case 'too-many-entries':
      return sealed('tooMany')
    case 'not-one-file':
      return sealed('notOneFile')
    case 'cut':
    case 'trailing':
    case 'kind':
    case 'utf8':
    case 'path':
    case 'order':
    case 'size':
      return sealed(index)
  }
}
