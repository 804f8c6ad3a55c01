import { describe, expect, it, vi } from 'vitest'
import { encodeMessage, type Message } from '../bitswap/index.ts'
import { cidOf, RAW } from '../content/index.ts'
import { PeerInbox } from './peer-inbox.ts'

const words = (pendingBytes: number): Message => ({ full: false, wants: [], presences: [], pendingBytes })

describe('the inbox of a peer', () => {
  it('loses none of many short messages that arrive while blocks are hashed', async () => {
    const inbox = new PeerInbox()
    const data = new Uint8Array(1 << 20)
    const block = { cid: await cidOf(RAW, data), data }
    const order: number[] = []
    let open = () => {}
    const isOpen = new Promise<void>((resolve) => (open = resolve))
    await new Promise<void>((resolve) => {
      for (let n = 0; n < 16; n++)
        inbox.read(
          encodeMessage(words(0), [block]),
          () => isOpen,
          () => {},
        )
      for (let n = 1; n <= 200; n++) {
        inbox.read(
          encodeMessage(words(n), []),
          () => isOpen,
          (received) => {
            order.push(received?.message.pendingBytes ?? -1)
            if (n === 200) resolve()
          },
        )
      }
      open()
    })
    expect(order).toEqual(Array.from({ length: 200 }, (_, n) => n + 1))
  })

  it('reads on, and blames nobody, when this browser cannot hash a block', async () => {
    const inbox = new PeerInbox()
    const data = new Uint8Array([1])
    const block = { cid: await cidOf(RAW, data), data }
    const hash = vi.spyOn(crypto.subtle, 'digest').mockRejectedValueOnce(new DOMException('no memory', 'OperationError'))
    const received: unknown[] = []
    for (const pending of [1, 2]) {
      inbox.read(
        encodeMessage(words(pending), [block]),
        () => null,
        (each) => received.push([each?.blocks.length, each?.skippedBlocks, each?.message.pendingBytes]),
      )
    }
    await expect
      .poll(() => received)
      .toEqual([
        [0, 0, 1],
        [1, 0, 2],
      ])
    hash.mockRestore()
  })

  it('drops messages above its limits', async () => {
    const inbox = new PeerInbox()
    let received = 0
    let open = () => {}
    const isOpen = new Promise<void>((resolve) => (open = resolve))
    for (let n = 0; n < 1000; n++)
      inbox.read(
        encodeMessage(words(1), []),
        () => isOpen,
        () => received++,
      )
    for (let n = 0; n < 100; n++)
      inbox.read(
        new Uint8Array(20_000),
        () => isOpen,
        () => received++,
      )
    open()
    await expect.poll(() => received).toBe(256 + 16)
  })
})
