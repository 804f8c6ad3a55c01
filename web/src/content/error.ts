import type { Damage } from '../words/damage.ts'
import { problemSentence } from '../words/swarm.ts'

/** Why content cannot be made, loaded or shown. */
export type ContentProblem =
  /** Bytes are not what they claim to be. */
  | { kind: 'malformed'; what: Damage }
  /** Well formed, but of a kind we do not read. */
  | { kind: 'unsupported'; what: 'codec' | 'hash' | 'type'; code: string }
  | { kind: 'too-large'; bytes: number; bytesMax: number }
  | { kind: 'too-many'; what: 'blocks' | 'entries' | 'parts'; max: number }
  | { kind: 'too-deep'; depthMax: number }
  /** Neither disk nor memory for more of it. */
  | { kind: 'no-room'; bytes: number }
  | { kind: 'missing'; cid: string }
  | { kind: 'no-such-file'; path: string }
  /** A name that no directory can hold, or that is there twice. */
  | { kind: 'bad-path'; path: string }

/** Something wrong with content; `message` is a sentence for people. */
export class ContentError extends Error {
  readonly problem: ContentProblem

  constructor(problem: ContentProblem) {
    super(problemSentence(problem))
    this.name = 'ContentError'
    this.problem = problem
  }
}

export function malformed(what: Damage): ContentError {
  return new ContentError({ kind: 'malformed', what })
}
