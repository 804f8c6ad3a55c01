import { textOf, utf8, type Bytes } from './bytes.ts'
import { decodeCid, encodeCid, type Cid } from './cid.ts'
import { malformed } from './error.ts'
import { bytesOf, decodeFields, MessageWriter, uintOf } from './protobuf.ts'

/** A node of a Merkle DAG: links to other blocks, and data. */
export interface PbNode {
  readonly links: readonly PbLink[]
  /** `null` if the field is absent, which encodes differently from empty. */
  readonly data: Bytes | null
}

export interface PbLink {
  readonly cid: Cid
  readonly name: string
  /** Bytes of the linked block and all blocks below it, as the node's author states. `null` if not stated. */
  readonly dagBytes: number | null
}

/** Encodes links before data, as every implementation does, regardless of the field numbers. */
export function encodePbNode(node: PbNode): Bytes {
  const writer = new MessageWriter()
  for (const link of node.links) {
    const inner = new MessageWriter().bytes(1, encodeCid(link.cid)).bytes(2, utf8(link.name))
    if (link.dagBytes !== null) inner.uint(3, link.dagBytes)
    writer.message(2, inner)
  }
  if (node.data !== null) writer.bytes(1, node.data)
  return writer.finish()
}

export function decodePbNode(bytes: Bytes): PbNode {
  const links: PbLink[] = []
  let data: Bytes | null = null
  for (const field of decodeFields(bytes)) {
    if (field.number === 2) {
      links.push(decodeLink(bytesOf(field)))
    } else if (field.number === 1) {
      if (data !== null) throw malformed('dataTwice')
      data = bytesOf(field)
    } else {
      throw malformed('nodeField')
    }
  }
  return { links, data }
}

function decodeLink(bytes: Bytes): PbLink {
  let cid: Cid | null = null
  let name = ''
  let dagBytes: number | null = null
  for (const field of decodeFields(bytes)) {
    if (field.number === 1) cid = decodeCid(bytesOf(field))
    else if (field.number === 2) name = decodeName(bytesOf(field))
    else if (field.number === 3) dagBytes = uintOf(field)
    else throw malformed('linkField')
  }
  if (cid === null) throw malformed('linkNowhere')
  return { cid, name, dagBytes }
}

function decodeName(bytes: Bytes): string {
  const name = textOf(bytes)
  if (name === null) throw malformed('nameUtf8')
  return name
}
