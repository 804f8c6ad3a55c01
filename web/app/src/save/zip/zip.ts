import { concat, type Bytes } from '@watchfire/pages/content'
import { files } from '../../messages/files.ts'
import { crc32 } from './crc32.ts'
import {
  blockHead,
  descriptor,
  directoryEnd,
  directoryEntry,
  inBlocks,
  memberHeader,
  packedSize,
  zipSize,
  type Written,
} from './headers.ts'

/** A file to be added to a zip file. */
export interface ZipMember {
  /** A safe path with forward slashes. */
  readonly path: string
  readonly size: number
  read(signal: AbortSignal): Promise<ReadableStream<Bytes>>
  /** All of it, if it is here. `null` if it can only be read as it arrives. */
  whole?(): Promise<Blob> | null
}

/** Smallest chunk of the output, so that many small files do not become many small chunks. */
const GATHERED_BYTES = 256 << 10

/** A member of at most this size is read together with others: opening each takes longer than reading it. */
const SMALL_BYTES_MAX = 128 << 10
/** Bytes and members that are read at once. */
const GROUP_BYTES_MAX = 2 << 20
const GROUP_MEMBERS_MAX = 128

const utf8 = new TextEncoder()

interface Named {
  readonly member: ZipMember
  readonly name: Bytes
  readonly size: number
}

/** A zip file of these members, created while it is read: its length, and its bytes. */
export function zip(members: readonly ZipMember[], at: Date): { size: number; read(signal: AbortSignal): ReadableStream<Bytes> } {
  const named = members.map((member) => ({ member, name: utf8.encode(member.path), size: member.size }))
  return {
    size: zipSize(named),
    read(signal) {
      const pieces = piecesOf(named, at, signal)
      return new ReadableStream<Bytes>(
        {
          async pull(controller) {
            const gathered: Bytes[] = []
            for (let bytes = 0; bytes < GATHERED_BYTES; ) {
              const { done, value } = await pieces.next()
              if (done) break
              gathered.push(value)
              bytes += value.length
            }
            const [first] = gathered
            if (first === undefined) controller.close()
            else controller.enqueue(gathered.length === 1 ? first : concat(gathered))
          },
          async cancel() {
            await pieces.return()
          },
        },
        { highWaterMark: 0 },
      )
    },
  }
}

async function* piecesOf(members: readonly Named[], at: Date, signal: AbortSignal): AsyncGenerator<Bytes, void> {
  const written: Written[] = []
  let offset = 0
  for (const group of groupsOf(members)) {
    signal.throwIfAborted()
    const together = await readTogether(group)
    for (const [i, { member, name, size }] of group.entries()) {
      const header = memberHeader({ name, size, at })
      yield header
      let crc = 0
      let bytes = 0
      const whole = together?.[i]
      for await (const piece of whole === undefined ? contentOf(member, signal) : [whole]) {
        crc = crc32(piece, crc)
        if (bytes + piece.length > size) throw otherSize(member)
        yield* inBlocks(piece, bytes, size)
        bytes += piece.length
      }
      if (bytes !== size) throw otherSize(member)
      if (size === 0) yield blockHead(0, true)
      const behind = descriptor({ size, crc })
      yield behind
      written.push({ name, size, at, crc, offset })
      offset += header.length + packedSize(size) + behind.length
    }
  }
  let bytes = 0
  for (const entry of written) {
    const record = directoryEntry(entry)
    bytes += record.length
    yield record
  }
  yield directoryEnd(written.length, bytes, offset)
}

function otherSize({ path }: ZipMember): Error {
  return new Error(files('otherSize', { name: path }))
}

async function* contentOf(member: ZipMember, signal: AbortSignal): AsyncGenerator<Bytes, void> {
  const reader = (await member.read(signal)).getReader()
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) yield piece.value
  } finally {
    // Has no effect on a stream that has ended.
    await reader.cancel().catch(() => undefined)
  }
}

/** All members in order: small ones that follow each other together, each other one alone. */
function* groupsOf(members: readonly Named[]): Generator<readonly Named[], void> {
  let group: Named[] = []
  let bytes = 0
  for (const each of members) {
    const isFull = group.length >= GROUP_MEMBERS_MAX || bytes + each.size > GROUP_BYTES_MAX
    if (group.length > 0 && (isFull || each.size > SMALL_BYTES_MAX)) {
      yield group
      group = []
      bytes = 0
    }
    if (each.size > SMALL_BYTES_MAX) {
      yield [each]
      continue
    }
    group.push(each)
    bytes += each.size
  }
  if (group.length > 0) yield group
}

/** The contents of a group of small members. `null` if one is not here, or cannot be read: each is then read alone. */
async function readTogether(group: readonly Named[]): Promise<Bytes[] | null> {
  if (group.some(({ size }) => size > SMALL_BYTES_MAX)) return null
  try {
    const blobs: Blob[] = []
    for (const { member } of group) {
      const blob = await member.whole?.()
      if (!(blob instanceof Blob)) return null
      blobs.push(blob)
    }
    const all = new Uint8Array(await new Blob(blobs).arrayBuffer())
    let at = 0
    return blobs.map(({ size }) => {
      const from = at
      at += size
      return all.subarray(from, at)
    })
  } catch {
    return null
  }
}
