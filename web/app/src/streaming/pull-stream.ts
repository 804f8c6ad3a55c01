import type { Range } from '../service-worker/range.ts'
import { parsePullReply, type PullRequest } from './protocol.ts'

/** Chunks requested ahead of the reader; a chunk is a block of the file. */
const CHUNKS_AHEAD = 4

/**
 * A part of a file, pulled chunk by chunk from the tab at the other end of `port`, at most a few chunks ahead of its
 * reader. `ended` is called once, however the stream ends; the returned `fail` ends it with an error.
 */
export function pullStream(port: MessagePort, { from, to }: Range, ended: () => void) {
  const chunks: Uint8Array[] = []
  let remaining = to - from
  let requested = 0
  let failure: Error | null = null
  let isOver = false
  let wake = () => {}
  const send = (request: PullRequest) => port.postMessage(request)
  const end = () => {
    if (isOver) return
    isOver = true
    chunks.length = 0
    port.onmessage = null
    port.close()
    ended()
  }
  const fail = (reason: string) => {
    failure ??= new Error(reason)
    wake()
  }
  port.onmessage = ({ data }: MessageEvent<unknown>) => {
    const reply = parsePullReply(data)
    if (reply?.kind === 'failed') fail(reply.reason)
    if (reply?.kind !== 'bytes') return
    // An unrequested or oversized chunk is an error, so that a tab cannot fill the worker's memory.
    if (requested === 0 || reply.bytes.byteLength > remaining || reply.bytes.byteLength === 0) {
      fail('cannot read the file: its tab sent a chunk that was not requested')
      return
    }
    requested--
    remaining -= reply.bytes.byteLength
    chunks.push(new Uint8Array(reply.bytes))
    wake()
  }
  const request = () => {
    for (; requested + chunks.length < CHUNKS_AHEAD && remaining > 0; requested++) send({ kind: 'pull' })
  }
  const stream = new ReadableStream<Uint8Array>(
    {
      start: () => send({ kind: 'range', from, to }),
      pull: async (controller) => {
        request()
        if (chunks.length === 0 && failure === null && remaining > 0) await new Promise<void>((resolve) => (wake = resolve))
        const chunk = chunks.shift()
        if (chunk !== undefined) controller.enqueue(chunk)
        else if (failure !== null) {
          controller.error(failure)
          end()
          return
        }
        request()
        if (remaining === 0 && chunks.length === 0) {
          controller.close()
          end()
        }
      },
      cancel: () => {
        if (!isOver) send({ kind: 'cancel' })
        end()
      },
    },
    { highWaterMark: 0 },
  )
  return { stream, fail }
}
