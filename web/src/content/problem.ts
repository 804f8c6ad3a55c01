import type { Damage } from '../messages/damage.ts'

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
