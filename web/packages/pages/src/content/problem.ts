import { type Damage, damage } from '../messages/damage.ts'
import { sizeText } from '../messages/sizes.ts'
import { swarm } from '../messages/swarm.ts'

/** The reason why content cannot be created, loaded or shown. */
export type ContentProblem =
  /** The bytes are not valid. */
  | { kind: 'malformed'; what: Damage }
  /** The bytes are valid, but of an unsupported kind. */
  | { kind: 'unsupported'; what: 'codec' | 'hash' | 'type'; code: string }
  | { kind: 'too-large'; bytes: number; bytesMax: number }
  | { kind: 'too-many'; what: 'blocks' | 'entries' | 'parts'; max: number }
  | { kind: 'too-deep'; depthMax: number }
  /** Neither the disk nor memory has room for more. */
  | { kind: 'no-room'; bytes: number }
  | { kind: 'missing'; cid: string }
  | { kind: 'no-such-file'; path: string }
  /** A name that a directory cannot have, or that is there twice. */
  | { kind: 'bad-path'; path: string }

/** The reason why content cannot be created, loaded or shown. */
export function problemSentence(problem: ContentProblem): string {
  switch (problem.kind) {
    case 'malformed':
      return swarm('damaged', { what: damage(problem.what) })
    case 'unsupported':
      return swarm(problem.what, { code: problem.code })
    case 'too-large':
      return swarm('tooLarge', { size: sizeText(problem.bytes), most: sizeText(problem.bytesMax) })
    case 'too-many':
      return swarm(problem.what, { count: problem.max })
    case 'too-deep':
      return swarm('tooDeep', { count: problem.depthMax })
    case 'no-room':
      return swarm('noRoom', { size: sizeText(problem.bytes) })
    case 'missing':
      return swarm('missing', { cid: problem.cid })
    case 'no-such-file':
      return swarm('noFile', { name: problem.path })
    case 'bad-path':
      return swarm('badPath', { name: problem.path })
  }
}

/** The reason why a link does not name a page that can be read here. */
export function linkSentence(problem: ContentProblem): string {
  return problem.kind === 'unsupported' ? swarm('unreadable', { what: problemSentence(problem) }) : swarm('noCid')
}
