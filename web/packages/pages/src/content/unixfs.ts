import type { Bytes } from './bytes.ts'
import { DAG_PB, RAW, type Cid } from './cid.ts'
import { decodePbNode, encodePbNode, type PbLink } from './dag-pb.ts'
import { ContentError, malformed, unsupported } from './error.ts'
import { bytesOf, decodeFields, decodePacked, MessageWriter, uintOf, type Field } from './protobuf.ts'
import { fanoutOf, SHARD_TYPE, shardLinks, type ShardLink } from './shard.ts'

const RAW_TYPE = 0
const DIRECTORY_TYPE = 1
const FILE_TYPE = 2
const SYMLINK_TYPE = 4

/** The last time that `Date` can represent. */
const TIME_MAX = 8.64e15

/** The meaning of a block in a file system. A file may state when it was `modified`, in milliseconds since 1970. */
export type FsNode =
  /** A leaf of a file: only bytes. */
  | { kind: 'leaf'; bytes: Bytes; modified?: number }
  /** A file: its own bytes come before those of its children. */
  | { kind: 'file'; size: number; bytes: Bytes; children: readonly FileChild[]; modified?: number }
  | { kind: 'directory'; links: readonly PbLink[] }
  /** A part of a directory that is too large for one block. */
  | { kind: 'shard'; links: readonly ShardLink[]; fanout: number }
  | { kind: 'symlink'; target: string }

export interface FileChild {
  readonly cid: Cid
  /** Bytes of the file below it. */
  readonly size: number
  readonly dagBytes: number | null
}

export function encodeFile(children: readonly FileChild[]): Bytes {
  const size = children.reduce((sum, child) => sum + child.size, 0)
  const fs = new MessageWriter().uint(1, FILE_TYPE).uint(3, size)
  for (const child of children) fs.uint(4, child.size)
  const links = children.map(({ cid, dagBytes }) => ({ cid, name: '', dagBytes }))
  return encodePbNode({ links, data: fs.finish() })
}

/** `links` must be sorted by the bytes of their names. */
export function encodeDirectory(links: readonly PbLink[]): Bytes {
  return encodePbNode({ links, data: new MessageWriter().uint(1, DIRECTORY_TYPE).finish() })
}

/** Decodes a verified block. Throws if its sizes do not add up. */
export function decodeFsNode(cid: Cid, block: Bytes): FsNode {
  if (cid.codec === RAW) return { kind: 'leaf', bytes: block }
  if (cid.codec !== DAG_PB) {
    throw unsupported('codec', cid.codec)
  }
  const { links, data } = decodePbNode(block)
  if (data === null) throw malformed('noFileSystem')
  const fs = decodeFs(data)
  switch (fs.type) {
    case RAW_TYPE:
    case FILE_TYPE:
      return fileNode(fs, links)
    case DIRECTORY_TYPE:
      return { kind: 'directory', links }
    case SHARD_TYPE:
      return { kind: 'shard', links: shardLinks({ ...fs, bitmap: fs.data }, links), fanout: fanoutOf(fs) }
    case SYMLINK_TYPE:
      return { kind: 'symlink', target: new TextDecoder().decode(fs.data) }
    default:
      throw new ContentError({ kind: 'unsupported', what: 'type', code: String(fs.type) })
  }
}

interface Fs {
  readonly type: number
  readonly data: Bytes
  readonly filesize: number | null
  readonly blocksizes: readonly number[]
  readonly hashType: number | null
  readonly fanout: number | null
  readonly modified: number | null
}

function decodeFs(bytes: Bytes): Fs {
  let type: number | null = null
  let data: Bytes = new Uint8Array()
  let filesize: number | null = null
  let hashType: number | null = null
  let fanout: number | null = null
  let modified: number | null = null
  const blocksizes: number[] = []
  for (const field of decodeFields(bytes)) {
    if (field.number === 1) type = uintOf(field)
    else if (field.number === 2) data = bytesOf(field)
    else if (field.number === 3) filesize = uintOf(field)
    else if (field.number === 4) pushBlocksizes(field, blocksizes)
    else if (field.number === 5) hashType = uintOf(field)
    else if (field.number === 6) fanout = uintOf(field)
    else if (field.number === 8) modified = timeOf(bytesOf(field))
  }
  if (type === null) throw malformed('typeless')
  return { type, data, filesize, blocksizes, hashType, fanout, modified }
}

/** The time of the last change, in milliseconds since 1970; `null` for one that no clock shows. Fractions are left out. */
function timeOf(message: Bytes): number | null {
  for (const field of decodeFields(message)) {
    if (field.number === 1 && field.wire === 0 && field.value * 1000 <= TIME_MAX) return field.value * 1000
  }
  return null
}

function pushBlocksizes(field: Field, into: number[]): void {
  if (field.wire === 2) into.push(...decodePacked(field.bytes))
  else into.push(uintOf(field))
}

function fileNode(fs: Fs, links: readonly PbLink[]): FsNode {
  if (links.length === 0) {
    if (fs.filesize !== null && fs.filesize !== fs.data.length) throw malformed('sizeSum')
    return { kind: 'leaf', bytes: fs.data, ...modifiedOf(fs) }
  }
  if (links.length !== fs.blocksizes.length) throw malformed('sizeLinks')
  const children = links.map(({ cid, dagBytes }, i) => ({ cid, dagBytes, size: fs.blocksizes[i] ?? 0 }))
  const size = children.reduce((sum, child) => sum + child.size, fs.data.length)
  if (!Number.isSafeInteger(size) || (fs.filesize !== null && fs.filesize !== size)) {
    throw malformed('sizeSum')
  }
  return { kind: 'file', size, bytes: fs.data, children, ...modifiedOf(fs) }
}

/** The time of the last change, as a field to spread: none if the time is unknown. */
export function modifiedOf({ modified }: { readonly modified?: number | null }): { modified: number } | undefined {
  return typeof modified === 'number' ? { modified } : undefined
}

/** Whether a directory entry may have this name. A path is names joined by slashes. */
export function isEntryName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name)
}

/** Bytes of a block and all blocks below it, as its parent's link states them. */
export function dagBytesOf(block: Uint8Array, children: readonly { dagBytes: number | null }[]): number {
  return children.reduce((sum, child) => sum + (child.dagBytes ?? 0), block.length)
}
