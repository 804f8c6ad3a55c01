/** Why a private page cannot be made or opened. None of these says anything of a key. */
export type PrivateProblem =
  /** It does not begin like one. */
  | { kind: 'not-private' }
  /** It begins like one, and says things that only a later version understands. */
  | { kind: 'version' }
  /** The key is that of another page, or was cut. */
  | { kind: 'wrong-key' }
  /** A record is not what was sealed. */
  | { kind: 'changed'; record: number }
  /** No page has this length. */
  | { kind: 'length'; sealedBytes: number }
  | { kind: 'too-large' }
  | { kind: 'index'; index: IndexProblem }

export type IndexProblem =
  | 'cut' | 'trailing' | 'too-long' | 'too-many-entries' | 'kind' | 'not-one-file' | 'utf8' | 'path' | 'order' | 'size'

/** Something wrong with a private page; `message` is a sentence for people. */
export class PrivateError extends Error {
  readonly problem: PrivateProblem

  constructor(problem: PrivateProblem) {
    super(sentence(problem))
    this.name = 'PrivateError'
    this.problem = problem
  }
}

function sentence(problem: PrivateProblem): string {
  switch (problem.kind) {
    case 'not-private':
      return 'This page is not private, although its link has a key: somebody changed the link.'
    case 'version':
      return 'This private page was made by a later version, which is not understood here.'
    case 'wrong-key':
      return 'The key in this link does not open this page.'
    case 'changed':
      return `This private page was changed after it was made: part ${problem.record} is not what was sealed.`
    case 'length':
      return 'This private page is not whole: a part is missing, or too much is there.'
    case 'too-large':
      return 'This is more than a private page can hold.'
    case 'index':
      return `The names in this private page ${INDEX[problem.index]}.`
  }
}

const INDEX: Record<IndexProblem, string> = {
  cut: 'end too early',
  trailing: 'have something behind them',
  'too-long': 'are too long',
  'too-many-entries': 'are too many',
  kind: 'are of an unknown kind',
  'not-one-file': 'are not those of one file',
  utf8: 'are no text',
  path: 'lead to places where no file can be',
  order: 'are not in their order',
  size: 'come with impossible sizes',
}
