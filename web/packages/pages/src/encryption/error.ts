import { type PrivateProblem, privateProblemSentence } from './problem.ts'

/** A private page cannot be made or opened. `message` is a sentence for people. */
export class PrivateError extends Error {
  override name = 'PrivateError'
  readonly problem: PrivateProblem

  constructor(problem: PrivateProblem) {
    super(privateProblemSentence(problem))
    this.problem = problem
  }
}
