import { ContentError, parseCid, type Cid } from '../content/index.ts'
import { linkSentence } from '../words/swarm.ts'
import type { PageDeps, PageSession } from './api.ts'
import { Session } from './session.ts'

/**
 * Joins the page's topic; loads what is missing and serves what is here until closed. Throws when `cid` is none, with
 * a sentence that says so.
 */
export function openPage(cid: string, deps: PageDeps): PageSession {
  return new Session(named(cid), deps)
}

function named(cid: string): Cid {
  try {
    return parseCid(cid)
  } catch (reason) {
    throw reason instanceof ContentError ? new Error(linkSentence(reason.problem), { cause: reason }) : reason
  }
}
