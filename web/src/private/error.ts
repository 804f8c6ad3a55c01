import { sealedSentence } from '../words/sealed.ts'

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
    super(sealedSentence(problem))
    this.name = 'PrivateError'
    this.problem = problem
  }
}
