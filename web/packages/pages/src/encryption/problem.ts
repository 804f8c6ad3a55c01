import { privatePages as text } from '../messages/private.ts'

/** The reason why a private page cannot be created or opened. No variant contains any part of a key. */
export type PrivateProblem =
  /** It does not begin with the magic bytes. */
  | { kind: 'not-private' }
  /** It begins with them, but needs a newer version. */
  | { kind: 'version' }
  /** The key is of another page, or truncated. */
  | { kind: 'wrong-key' }
  /** A record was changed. */
  | { kind: 'changed'; record: number }
  /** The length is not valid. */
  | { kind: 'length'; sealedBytes: number }
  | { kind: 'too-large' }
  | { kind: 'index'; index: IndexProblem }

export type IndexProblem =
  | 'cut'
  | 'trailing'
  | 'too-long'
  | 'too-many-entries'
  | 'kind'
  | 'not-one-file'
  | 'utf8'
  | 'path'
  | 'order'
  | 'size'

/** The reason why a private page cannot be created or opened. */
export function privateProblemSentence(problem: PrivateProblem): string {
  if (problem.kind === 'changed') return text('changed', { record: problem.record })
  return text(problem.kind === 'index' ? problem.index : problem.kind)
}
