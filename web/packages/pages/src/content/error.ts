import type { Damage } from '../messages/damage.ts'
import { type ContentProblem, problemSentence } from './problem.ts'

/** Invalid or unavailable content. `message` is a sentence for people. */
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
