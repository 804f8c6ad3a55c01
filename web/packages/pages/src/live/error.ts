/** The reason why a head or a node of a live page is invalid. */
export type LiveProblem =
  | 'NotLive'
  | 'UnsupportedVersion'
  | 'Node'
  | 'NodeTooLong'
  | 'Truncated'
  | 'TrailingBytes'
  | 'NotUtf8'
  | 'NameTooLong'
  | 'UnknownForm'
  | 'TextWithName'
  | 'Number'
  | 'Links'
  | 'UnsupportedCid'
  | 'HeadLength'
  | 'OtherPage'
  | 'Signature'

/** A head or a node of a live page is invalid. */
export class LiveError extends Error {
  override name = 'LiveError'
  readonly problem: LiveProblem

  constructor(problem: LiveProblem) {
    super(`invalid live page: ${problem}`)
    this.problem = problem
  }
}
