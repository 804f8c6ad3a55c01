import type { ContentProblem } from '../content/problem.ts'
import { damage } from './damage.ts'
import { part } from './part.ts'
import { sizeText } from './sizes.ts'

/** Problems with a page, its content, and the peers that send it. */
export const swarm = part('swarm', {
  invalidSignals: 'A peer sent invalid connection requests to this tab and is ignored from now on.',
  'forged-blocks': 'A peer sent wrong bytes. They were discarded, and the peer is not asked again.',
  malformed: 'A peer sent invalid messages and is ignored from now on.',
  stalled: 'A peer announced blocks and never sent them. Others are asked instead.',
  flooded: 'A peer kept sending blocks that nobody requested and is ignored from now on.',
  full: '{reason} The loaded part stays shared. Free some space and reload to continue.',
  damaged: 'The content is damaged: {what}.',
  codec: 'The content cannot be read: unknown codec {code}.',
  hash: 'The content cannot be read: unknown hash function {code}.',
  type: 'The content cannot be read: unknown UnixFS type {code}.',
  tooLarge: 'The content has {size}, more than the {most} a page may have here.',
  blocks: { other: 'The content has more than {count} blocks.' },
  entries: { other: 'The content has more than {count} entries.' },
  parts: { other: 'The content has more than {count} parts.' },
  tooDeep: { other: 'The content is nested deeper than {count} levels.' },
  changed:
    '"{name}" was changed or removed after it was shared, so this tab no longer shares it. To share the new version, add it to a new page.',
  changedNameless:
    'A file was changed or removed after it was shared, so this tab no longer shares it. To share the new version, add it to a new page.',
  changedMeanwhile: 'A file was changed while it was read. Add it again.',
  readers: 'Too many files of this page are read at once. Close one and try again.',
  closed: 'The page was closed.',
  failed: 'Something went wrong for an unknown reason. Reload to try again.',
  noRoom: 'This browser has no room for more than {size} of this page.',
  noCid: 'This link is not valid: the part after /p/ is not a CID. Check that the link is complete.',
  unreadable: 'This link is not valid. {what}',
  missing: 'The block {cid} is missing.',
  noFile: 'There is no file "{name}".',
  badPath: '"{name}" cannot be the name of a file here.',
})

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
