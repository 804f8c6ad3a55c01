import type { ContentProblem } from '../content/index.ts'
import { damage } from './damage.ts'
import { part } from './part.ts'
import { sizeText } from './sizes.ts'

/** What goes wrong with a page, its content, and those it comes from. */
export const swarm = part('swarm', {
  sentAway: 'A peer tried to reach this tab in a way that makes no sense, and is not listened to any more.',
  lied: 'A peer sent wrong bytes. They were thrown away, and the peer is not asked again.',
  malformed: 'A peer sent what cannot be read, and is not listened to any more.',
  stalled: 'A peer said that it has blocks and never sent them. It is not waited for any longer.',
  flooded: 'A peer kept sending what nobody asked for, and is not listened to any more.',
  full: '{reason} What is here is kept and shared; make room and reload to go on.',
  damaged: 'The content is damaged: {what}.',
  codec: 'The content is of a kind we cannot read: codec {code}.',
  hash: 'The content is of a kind we cannot read: hash {code}.',
  type: 'The content is of a kind we cannot read: UnixFS type {code}.',
  tooLarge: 'The content has {size}, more than the {most} a page may have here.',
  blocks: { other: 'The content has more than {count} blocks.' },
  entries: { other: 'The content has more than {count} entries.' },
  parts: { other: 'The content has more than {count} parts.' },
  tooDeep: { other: 'The content is nested deeper than {count} levels.' },
  changed: '"{name}" has changed or gone since it was shared, and is not shared from this tab any more.',
  changedNameless: 'A shared file has changed or gone since it was shared, and is not shared from this tab any more.',
  changedMeanwhile: 'A file changed while it was read.',
  readers: 'Too many files of this page are read at once.',
  closed: 'The page was closed.',
  failed: 'Something went wrong, and nobody knows what.',
  noRoom: 'There is no room in this browser for more than {size} of this page.',
  noCid: 'This link is not one of ours: what follows /p/ is not a CID. Perhaps a part of it was lost on the way.',
  unreadable: 'This link is not one of ours. {what}',
  missing: 'The block {cid} is not here.',
  noFile: 'There is no file "{name}".',
  badPath: '"{name}" cannot be the name of a file here.',
})

/** Why content cannot be made, loaded or shown. */
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

/** What is wrong with a link that names no page that can be read here. */
export function linkSentence(problem: ContentProblem): string {
  return problem.kind === 'unsupported' ? swarm('unreadable', { what: problemSentence(problem) }) : swarm('noCid')
}
