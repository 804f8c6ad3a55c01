import { type Cid, parseCid } from './cid.ts'
import { ContentError } from './error.ts'
import { linkSentence } from './problem.ts'

/** Parses the CID that a link names. Throws an error with a sentence for people if it is not valid. */
export function cidOfLink(text: string): Cid {
  try {
    return parseCid(text)
  } catch (reason) {
    throw reason instanceof ContentError ? new Error(linkSentence(reason.problem), { cause: reason }) : reason
  }
}
