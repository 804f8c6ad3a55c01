import { type Bytes, type Cid, cidOf, DAG_PB, uint64 } from '../content/index.ts'
import { decodePbNode, encodePbNode, type PbNode } from '../content/dag-pb.ts'
import { LiveError } from './error.ts'
import { BEGINNING, FieldReader, NODE_BYTES_MAX, writeFields } from './fields.ts'

/** The first node of a live page. Its CID is the page's. */
export interface Beginning {
  /** The public key of the publisher. */
  readonly key: Bytes
  /** The time at which the page began, as the publisher claims, in milliseconds since 1970. */
  readonly timeMs: number
  /** May be empty. */
  readonly title: string
}

export interface Block {
  readonly cid: Cid
  readonly bytes: Bytes
}

export async function encodeBeginning({ key, timeMs, title }: Beginning): Promise<Block> {
  return blockOf({ links: [], data: writeFields(BEGINNING, [key, uint64(timeMs)], title) })
}

/** Decodes the bytes of a block. The problem `NotLive` means that the page is not live. */
export function decodeBeginning(bytes: Bytes): Beginning {
  if (bytes.length > NODE_BYTES_MAX) throw new LiveError('NotLive')
  let node: PbNode
  try {
    node = decodePbNode(bytes)
  } catch {
    throw new LiveError('NotLive')
  }
  if (node.data === null || node.links.length > 0) throw new LiveError('NotLive')
  const fields = new FieldReader(node.data, BEGINNING)
  return { key: fields.bytes(32), timeMs: fields.uint64(), title: fields.name() }
}

export async function blockOf(node: PbNode): Promise<Block> {
  const bytes = encodePbNode(node)
  return { cid: await cidOf(DAG_PB, bytes), bytes }
}
