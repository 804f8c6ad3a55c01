import { readWord, type Order } from './words.ts'
import type { Range } from './response.ts'

/** Pieces asked for before they are needed; a piece is a block of the file. */
const AHEAD = 4

/**
 * A part of a file, as the tab at the other end gives it: piece by piece, and no more than a few pieces before somebody
 * reads them. `ended` is called once, however it ends; the returned `fail` ends it with an error.
 */
export function pulledStream(line: MessagePort, { from, to }: Range, ended: () => void) {
  const pieces: Uint8Array[] = []
  let coming = to - from
  let asked = 0
  let failure: Error | null = null
  let isOver = false
  let wake = () => {}
  const say = (order: Order) => line.postMessage(order)
  const end = () => {
    if (isOver) return
    isOver = true
    pieces.length = 0
    line.onmessage = null
    line.close()
    ended()
  }
  const fail = (reason: string) => {
    failure ??= new Error(reason)
    wake()
  }
  line.onmessage = ({ data }: MessageEvent<unknown>) => {
    const word = readWord(data)
    if (word?.kind === 'failed') fail(word.reason)
    if (word?.kind !== 'bytes') return
    // A piece too many, or too long: what is not owed is not kept.
    if (asked === 0 || word.bytes.byteLength > coming || word.bytes.byteLength === 0) {
      fail('other bytes than were asked for')
      return
    }
    asked--
    coming -= word.bytes.byteLength
    pieces.push(new Uint8Array(word.bytes))
    wake()
  }
  const ask = () => {
    for (; asked + pieces.length < AHEAD && coming > 0; asked++) say({ kind: 'pull' })
  }
  const stream = new ReadableStream<Uint8Array>(
    {
      start: () => say({ kind: 'range', from, to }),
      pull: async (controller) => {
        ask()
        if (pieces.length === 0 && failure === null && coming > 0) await new Promise<void>((resolve) => (wake = resolve))
        const piece = pieces.shift()
        if (piece !== undefined) controller.enqueue(piece)
        else if (failure !== null) {
          controller.error(failure)
          end()
          return
        }
        ask()
        if (coming === 0 && pieces.length === 0) {
          controller.close()
          end()
        }
      },
      cancel: () => {
        if (!isOver) say({ kind: 'cancel' })
        end()
      },
    },
    { highWaterMark: 0 },
  )
  return { stream, fail }
}
