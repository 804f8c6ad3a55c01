import { type Bytes, type Cid, DAG_PB, RAW, SHA2_256, uint32, uint64 } from '../content/index.ts'
import { decodePbNode, type PbLink, type PbNode } from '../content/dag-pb.ts'
import { type Block, blockOf } from './beginning.ts'
import { LiveError } from './error.ts'
import { ENTRY, FieldReader, NODE_BYTES_MAX, writeFields } from './fields.ts'

/** The most entries of a page. */
export const ENTRIES_MAX = 10_000
/** The longest entry of the form `text` in bytes. */
export const TEXT_BYTES_MAX = 65_536

/** A node that a publisher has appended to a live page. */
export interface Entry {
  /** From 1. */
  readonly number: number
  /** As the publisher claims, in milliseconds since 1970. */
  readonly timeMs: number
  readonly form: 'text' | 'file'
  /** The name of the file or directory; empty for a text. */
  readonly name: string
  /** The root of the content. */
  readonly content: Cid
  /** The size of the blocks of the content, as the publisher claims. */
  readonly contentBytes: number
  /** The earlier nodes with the numbers of `linkedNumbers`. */
  readonly earlier: readonly Cid[]
}

/** An earlier node that an entry links to. */
export interface EarlierNode {
  readonly number: number
  readonly cid: Cid
}

/** The numbers of the nodes that entry `number` links to: at the distances 1, 2, 4 and so on. Node 0 is the beginning. */
export function linkedNumbers(number: number): number[] {
  const numbers = []
  for (let distance = 1; distance <= number; distance *= 2) numbers.push(number - distance)
  return numbers
}

/** The earlier nodes that an entry links to, the highest number first. */
export function linksOf(entry: Entry): EarlierNode[] {
  return linkedNumbers(entry.number).flatMap((number, i) => {
    const cid = entry.earlier[i]
    return cid === undefined ? [] : [{ number, cid }]
  })
}

export async function encodeEntry(entry: Entry): Promise<Block> {
  check(entry)
  const form = Uint8Array.of(entry.form === 'text' ? 0 : 1)
  const data = writeFields(ENTRY, [uint32(entry.number), uint64(entry.timeMs), form], entry.name)
  const earlier = entry.earlier.map((cid): PbLink => ({ cid, name: '', dagBytes: null }))
  return blockOf({ links: [{ cid: entry.content, name: '', dagBytes: entry.contentBytes }, ...earlier], data })
}

/** Decodes the bytes of a block. */
export function decodeEntry(bytes: Bytes): Entry {
  if (bytes.length > NODE_BYTES_MAX) throw new LiveError('NodeTooLong')
  let node: PbNode
  try {
    node = decodePbNode(bytes)
  } catch {
    throw new LiveError('Node')
  }
  if (node.data === null) throw new LiveError('NotLive')
  const fields = new FieldReader(node.data, ENTRY)
  const [number, timeMs, formNumber] = [fields.uint32(), fields.uint64(), fields.uint8()]
  if (formNumber > 1) throw new LiveError('UnknownForm')
  const name = fields.name()
  const [content, ...earlier] = node.links
  if (content?.dagBytes === undefined || content.dagBytes === null || content.name !== '') throw new LiveError('Links')
  if (earlier.some((link) => link.dagBytes !== null || link.name !== '')) throw new LiveError('Links')
  const entry: Entry = {
    number,
    timeMs,
    form: formNumber === 0 ? 'text' : 'file',
    name,
    content: content.cid,
    contentBytes: content.dagBytes,
    earlier: earlier.map(({ cid }) => cid),
  }
  check(entry)
  return entry
}

function check({ number, form, name, content, earlier }: Entry): void {
  if (number < 1 || number > ENTRIES_MAX) throw new LiveError('Number')
  if (form === 'text' && name !== '') throw new LiveError('TextWithName')
  if (linkedNumbers(number).length !== earlier.length) throw new LiveError('Links')
  // A text is one block.
  if (form === 'text' && content.codec !== RAW) throw new LiveError('UnsupportedCid')
  if (!isSupported(content) || !earlier.every(isNodeCid)) throw new LiveError('UnsupportedCid')
}

function isSupported({ version, hash }: Cid): boolean {
  return version === 1 && hash === SHA2_256
}

/** Whether a CID is one of the nodes of live pages. */
export function isNodeCid(cid: Cid): boolean {
  return isSupported(cid) && cid.codec === DAG_PB
}
