import { beforeEach, describe, expect, it } from 'vitest'
import { encodeMessage, type PeerId } from '../bitswap/index.ts'
import type { Reply } from '@watchfire/client/connection'
import type { MessagePath } from './message-path.ts'
import { PeerSet } from './peer-set.ts'
import type { DirectConnections, DirectConnectionsDeps } from './direct/index.ts'
import { FakeClock } from '../../test/fake-clock.ts'
import { encodeRelayFrame, encodeSignalFrame } from './segment.ts'

const PEER = '00000000000000aa' as PeerId

/** The inputs of the exchange, and the new members, in order. */
let inputs: string[]
let peers: PeerSet
let clock: FakeClock
let isLoading: boolean
/** The server's reply to a push. */
let reply: Reply
/** The dependencies of the direct connections, once they are made. */
let connections: DirectConnectionsDeps | null
beforeEach(() => {
  inputs = []
  connections = null
  reply = { status: 'ok', response: {} }
  clock = new FakeClock()
  isLoading = true
  peers = new PeerSet({
    clock,
    random: () => 0.5,
    pageBytesMax: 1 << 20,
    frameBytesMax: 1 << 16,
    isLarge: () => false,
    push: (event) => {
      if (event === 'relay') inputs.push('relayed')
      return Promise.resolve(reply)
    },
    stun: () => null,
    loadDirect: () =>
      Promise.resolve((deps) => {
        connections = deps
        return { handleSignal: () => {}, forget: () => {}, close: () => {} } as unknown as DirectConnections
      }),
    isOver: () => false,
    onMember: ({ peer }, isNew) => inputs.push(`${isNew ? 'connected' : 'known'} ${peer.id}`),
    room: () => null,
    handleInput: (input) => inputs.push(input.kind === 'acknowledged' ? `acknowledged ${input.messages}` : input.kind),
    onMalformed: () => inputs.push('malformed'),
    onBadSignal: () => inputs.push('bad signal'),
    onHeads: () => {},
    onConnecting: () => {},
    onDirect: () => {},
    onSilent: ({ peer }) => inputs.push(`silent ${peer.id}`),
    onChange: () => {},
    isLoading: () => isLoading,
    onQuiet: () => inputs.push('quiet'),
  })
})

/** A direct connection that carries nothing. */
function fakePath(changes: Partial<MessagePath>): MessagePath & { isUp: boolean } {
  const hasUnread = () => false
  return { isUp: true, send: () => Promise.resolve(), hasUnread, acknowledge: () => {}, takeUnacknowledged: () => [], ...changes }
}

/** Receives messages with these numbers from the peer, one after another. */
async function receive(...numbers: number[]): Promise<string[]> {
  for (const message of numbers) {
    const bytes = encodeMessage({ full: false, wants: [], presences: [], pendingBytes: 0 }, [])
    peers.handleRelay(encodeRelayFrame(PEER, { message, offset: 0, total: bytes.length, bytes }).buffer)
    const before = inputs.length
    await expect.poll(() => inputs.length).toBeGreaterThan(before)
  }
  return inputs.splice(0)
}

describe('a peer whose message numbers restart', () => {
  it('has lost our wants, so the exchange reconnects it before the next message', async () => {
    expect(await receive(7, 8, 9)).toEqual([`connected ${PEER}`, 'message', 'message', 'message'])
    expect(await receive(3_000_000_000)).toEqual(['disconnected', `connected ${PEER}`, 'message'])
    expect(await receive(3_000_000_001)).toEqual(['message'])
    expect(await receive(5)).toEqual(['disconnected', `connected ${PEER}`, 'message'])
  })

  it('is not confused with one whose messages overtook each other or whose numbers wrapped', async () => {
    expect(await receive(300, 299, 41, 301, 60_000)).toEqual([`connected ${PEER}`, ...Array<string>(5).fill('message')])
    peers.remove(PEER)
    inputs.length = 0
    expect(await receive(2 ** 32 - 2, 1, 2 ** 32 - 1, 2)).toEqual([`connected ${PEER}`, ...Array<string>(4).fill('message')])
  })
})

describe('a message that is relayed twice, because the reply of the server was late', () => {
  const bytes = encodeMessage({ full: false, wants: [], presences: [], pendingBytes: 0 }, [])
  const parts = (message: number) => [
    { message, offset: 0, total: bytes.length, bytes: bytes.slice(0, 1) },
    { message, offset: 1, total: bytes.length, bytes: bytes.slice(1) },
  ]

  it.each([
    ['whole', (message: number) => [{ message, offset: 0, total: bytes.length, bytes }], []],
    ['in parts', parts, ['partial-message']],
  ] as const)('%s, is read once', async (_what, segments, before) => {
    const relay = (message: number) => {
      for (const segment of segments(message)) peers.handleRelay(encodeRelayFrame(PEER, segment).buffer)
    }
    relay(7)
    // Before it is read, and after.
    relay(7)
    await expect.poll(() => inputs).toEqual([`connected ${PEER}`, ...before, 'message'])
    relay(7)
    relay(8)
    await expect.poll(() => inputs).toEqual([`connected ${PEER}`, ...before, 'message', ...before, 'message'])
    expect(peers.roster.get(PEER)?.peer.movedBytes).toBe(2 * bytes.length)
  })
})

describe('silent peers', () => {
  it('are a reason to ask whether the server can be reached, while blocks are missing', async () => {
    await receive(1)
    clock.pass(60_000)
    expect(inputs).toEqual(['quiet'])
    isLoading = false
    await receive(2)
    clock.pass(60_000)
    expect(inputs).toEqual([])
  })
})

describe('a peer with a direct connection', () => {
  it('sends a message on both paths, and it is read once, in the order of the direct path', async () => {
    await receive(1)
    peers.handleSignal(encodeSignalFrame(PEER, new Uint8Array(1)).buffer)
    await expect.poll(() => connections).not.toBeNull()
    const acknowledged: number[] = []
    const acknowledge = (id: number) => acknowledged.push(id)
    connections?.onUp(PEER, fakePath({ acknowledge }))
    inputs.length = 0
    const bytes = encodeMessage({ full: false, wants: [], presences: [], pendingBytes: 0 }, [])
    for (const message of [1, 2, 3]) connections?.onSegment(PEER, { message, offset: 0, total: bytes.length, bytes })
    // This copy arrives before the other one is read.
    peers.handleRelay(encodeRelayFrame(PEER, { message: 2, offset: 0, total: bytes.length, bytes }).buffer)
    await expect.poll(() => acknowledged).toEqual([1, 2, 3])
    await new Promise((resolve) => setImmediate(resolve))
    expect(inputs).toEqual(['message', 'message'])
  })
})

describe('messages with blocks', () => {
  it('count as read before the messages that the peer sends afterwards, and not before those that cross them', async () => {
    await receive(1)
    peers.handleSignal(encodeSignalFrame(PEER, new Uint8Array(1)).buffer)
    await expect.poll(() => connections).not.toBeNull()
    const unread = new Set<number>()
    const send = (id: number) => Promise.resolve(void unread.add(id))
    connections?.onUp(PEER, fakePath({ send, hasUnread: (id) => unread.has(id) }))
    const member = peers.roster.get(PEER)
    for (const hasBlocks of [true, false, true]) void member?.peer.send(new Uint8Array(20_000), hasBlocks)
    const [first, , second] = unread
    inputs.length = 0
    expect(await receive(2)).toEqual(['message'])
    // It arrives before the acknowledgement, and is read after it.
    const bytes = encodeMessage({ full: false, wants: [], presences: [], pendingBytes: 0 }, [])
    peers.handleRelay(encodeRelayFrame(PEER, { message: 3, offset: 0, total: bytes.length, bytes }).buffer)
    unread.delete(first ?? -1)
    await expect.poll(() => inputs.splice(0)).toEqual(['message'])
    expect(await receive(4)).toEqual(['acknowledged 1', 'message'])
    unread.delete(second ?? -1)
    expect(await receive(5)).toEqual(['acknowledged 2', 'message'])
    expect(await receive(6)).toEqual(['message'])
  })
})

describe('a peer whose direct connection breaks', () => {
  it.each([
    ['is contacted over the relay, and stays if it is there', { status: 'ok', response: {} }, []],
    ['is removed if the server says that it has left', { status: 'error', response: { reason: 'peer gone' } }, ['disconnected']],
  ] as const)('%s', async (_what, answer, follows) => {
    await receive(1)
    peers.handleSignal(encodeSignalFrame(PEER, new Uint8Array(1)).buffer)
    await expect.poll(() => connections).not.toBeNull()
    const path = fakePath({})
    connections?.onUp(PEER, path)
    expect(peers.roster.get(PEER)?.peer.path).toBe('direct')
    reply = answer
    path.isUp = false
    connections?.onDown(PEER)
    // The path is as good as a part of a message, so that the peer does not time out.
    expect(inputs).toEqual(['path', 'partial-message', 'path', 'relayed'])
    await new Promise((resolve) => setImmediate(resolve))
    expect(inputs.slice(4)).toEqual(follows)
    expect(peers.roster.get(PEER) === null).toBe(follows.length > 0)
  })

  it.each([
    ['is removed if it sends nothing, although the server says that it is there', 'tab', false, false],
    ['stays if it sends something', 'tab', true, true],
    ['stays if it is a terminal, which may have closed the idle connection', 'node', false, true],
  ] as const)('%s', async (_what, kind, sends, stays) => {
    await receive(1)
    peers.add({ peer: PEER, have: 'none', kind })
    isLoading = false
    clock.pass(10_000)
    peers.handleSignal(encodeSignalFrame(PEER, new Uint8Array(1)).buffer)
    await expect.poll(() => connections).not.toBeNull()
    connections?.onUp(PEER, fakePath({ isUp: false }))
    connections?.onDown(PEER)
    clock.pass(4900)
    expect(peers.roster.get(PEER)).not.toBeNull()
    if (sends) await receive(2)
    inputs.length = 0
    clock.pass(60_000)
    expect(peers.roster.get(PEER) !== null).toBe(stays)
    expect(inputs).toEqual(stays ? [] : [`silent ${PEER}`, 'disconnected'])
  })
})
