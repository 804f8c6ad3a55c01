import type { Cid } from './cid.ts'
import type { Damage } from '../messages/damage.ts'
import { type ContentProblem, problemSentence } from './problem.ts'

/** Invalid or unavailable content. `message` is a sentence for people. */
export class ContentError extends Error {
  override name = 'ContentError'
  readonly problem: ContentProblem

  constructor(problem: ContentProblem) {
    super(problemSentence(problem))
    this.problem = problem
  }
}

/** `code`: the number of the codec or the hash function. */
export function unsupported(what: 'codec' | 'hash', code: number): ContentError {
  return new ContentError({ kind: 'unsupported', what, code: `0x${code.toString(16)}` })
}

export function missing(cid: Cid): ContentError {
  return new ContentError({ kind: 'missing', cid: cid.text })
}

export function malformed(what: Damage): ContentError {
  return new ContentError({ kind: 'malformed', what })
}
