import { concat, type Bytes } from '@watchfire/pages/content'
import { files } from '../../messages/files.ts'
import { crc32 } from './crc32.ts'
import { descriptor, directoryEnd, directoryEntry, memberHeader, zipSize, type Written } from './headers.ts'

/** A file to be added to a zip file. */
export interface ZipMember {
  /** A safe path with forward slashes. */
  readonly path: string
  readonly size: number
  read(signal: AbortSignal): Promise<ReadableStream<Bytes>>
}

/** Smallest chunk of the output, so that many small files do not become many small chunks. */
const GATHERED_BYTES = 64 << 10

const utf8 = new TextEncoder()

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

async function* piecesOf(
  members: readonly { member: ZipMember; name: Bytes; size: number }[],
  at: Date,
  signal: AbortSignal,
): AsyncGenerator<Bytes, void> {
  const written: Written[] = []
  let offset = 0
  for (const { member, name, size } of members) {
    const header = memberHeader({ name, size, at })
    yield header
    let crc = 0
    let bytes = 0
    const reader = (await member.read(signal)).getReader()
    try {
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
        crc = crc32(piece.value, crc)
        bytes += piece.value.length
        yield piece.value
      }
    } finally {
      // Has no effect on a stream that has ended.
      await reader.cancel().catch(() => undefined)
    }
    if (bytes !== size) throw new Error(files('otherSize', { name: member.path }))
    const behind = descriptor({ size, crc })
    yield behind
    written.push({ name, size, at, crc, offset })
    offset += header.length + size + behind.length
  }
  let bytes = 0
  for (const entry of written) {
    const record = directoryEntry(entry)
    bytes += record.length
    yield record
  }
  yield directoryEnd(written.length, bytes, offset)
}
