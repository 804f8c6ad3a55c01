import { part } from './part.ts'

/** Problems with a page, its content, and the peers that send it. */
export const swarm = part('swarm', {
  invalidSignals: 'A peer sent invalid connection requests to this tab and is ignored from now on.',
  'forged-blocks': 'A peer sent wrong bytes. They were discarded, and the peer is not asked again.',
  malformed: 'A peer sent invalid messages and is ignored from now on.',
  stalled: 'A peer announced blocks and never sent them. Others are asked instead.',
  flooded: 'A peer kept sending blocks that nobody requested and is ignored from now on.',
  full: '{reason} The loaded part stays shared.',
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
  noRoom: 'This browser has no room for more than {size} of this page. Free some space and reload to continue.',
  noCid: 'This link is not valid: the part after /p/ is not a CID. Check that the link is complete.',
  unreadable: 'This link is not valid. {what}',
  missing: 'The block {cid} is missing.',
  noFile: 'There is no file "{name}".',
  badPath: '"{name}" cannot be the name of a file here.',
})
