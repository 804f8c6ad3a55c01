import { beforeEach, describe, expect, it } from 'vitest'
import type { Reply } from '@watchfire/client/connection'
import type { PeerId, ReceivedWithHeads } from '../bitswap/index.ts'
import type { Bytes, Cid } from '../content/index.ts'
import type { DirectStatus, MessagePath } from './direct-paths.ts'
import { PageProtocol, type Output } from './page-protocol.ts'
import { decodeRelayFrame, encodeRelayFrame, encodeSignalFrame, type UnsentMessage } from './segment.ts'

const [ALICE, BOB, ME] = ['aa', 'bb', 'ff'].map((end) => end.padStart(16, '0')) as [PeerId, PeerId, PeerId]
const LONG = 20_000
const MESSAGE = {
  message: { full: false, wants: [], presences: [], pendingBytes: 0 },
  blocks: [],
  heads: [],
} as unknown as ReceivedWithHeads

let now: number
let random: number
let protocol: PageProtocol
/** The calls of the protocol to the direct connections. */
let calls: string[]
let status: DirectStatus
/** Whether messages are decoded immediately. */
let decodes: boolean
let undecoded: number[]
let pushes: (Output & { kind: 'push' })[]
beforeEach(() => {
  now = 0
  random = 0.5
  calls = []
  status = { kind: 'untried' }
  decodes = true
  undecoded = []
  pushes = []
  const direct = {
    size: 0,
    connect: (peer: PeerId) => void calls.push(`connect ${peer}`),
    handleSignal: (peer: PeerId) => void calls.push(`signal ${peer}`),
    status: () => status,
    forget: () => {},
    closeAll: () => {},
    close: () => {},
  }
  protocol = new PageProtocol({ random: () => random, pageBytesMax: 1 << 20, frameBytesMax: 1 << 16, direct })
})

/** Performs the outputs. Returns them in a short form, without pushes of messages. */
function outputs(): string[] {
  const seen: string[] = []
  for (let output = protocol.pollOutput(); output !== null; output = protocol.pollOutput()) {
    if (output.kind === 'push') {
      pushes.push(output)
      if (output.event !== 'relay') seen.push(output.event)
    } else if (output.kind === 'decode') {
      if (decodes) protocol.handleDecoded(now, output.ref, MESSAGE)
      else undecoded.push(output.ref)
    } else if (output.kind === 'acknowledged') seen.push(`acknowledged ${output.messages}`)
    else if (output.kind === 'dropped') seen.push(`dropped ${output.reason}`)
    else if (output.kind !== 'have') seen.push('peer' in output ? `${output.kind} ${output.peer.slice(-2)}` : output.kind)
  }
  return seen
}
const join = (...peers: { peer: PeerId; have: string; kind?: string }[]) => {
  protocol.handleJoined(now, { peer: ME, peers, counts: { watching: 3, holders: 1, partial: 0 } })
  return outputs()
}
const pass = (milliseconds: number) => {
  const until = now + milliseconds
  for (let wake = protocol.nextWake(); wake <= until; wake = protocol.nextWake()) {
    now = Math.max(now, wake)
    protocol.handleTick(now)
  }
  now = until
  return outputs()
}
const relay = (message: number, part: { offset?: number; total?: number; bytes?: Bytes; from?: PeerId } = {}) => {
  const { offset = 0, bytes = new Uint8Array(2), total = bytes.length, from = ALICE } = part
  protocol.handleEvent(now, 'relay', encodeRelayFrame(from, { message, offset, total, bytes }).buffer)
  return outputs()
}
const reply = (answer: Reply) => {
  for (const { ref } of pushes.splice(0)) protocol.handleReply(now, ref, answer)
  return outputs()
}
const ok: Reply = { status: 'ok', response: {} }
const gone: Reply = { status: 'error', response: { reason: 'peer gone' } }
const send = (length: number, blocks: readonly Cid[] = [], isRequest = false) => {
  protocol.send(now, ALICE, new Uint8Array(length), blocks, isRequest)
  return outputs()
}
/** The numbers of the messages in relayed frames. */
const relayed = () =>
  pushes.flatMap(({ event, payload }) => {
    const frame = event === 'relay' && payload instanceof Uint8Array ? decodeRelayFrame(payload.slice().buffer) : null
    return frame === null ? [] : [frame.segment.message]
  })

/** A direct path that carries nothing. */
class FakePath implements MessagePath {
  isUp = true
  readonly given: UnsentMessage[] = []
  readonly acknowledged: number[] = []

  send(message: UnsentMessage): void {
    this.given.push(message)
  }

  hasUnread(id: number): boolean {
    return this.given.some((each) => each.id === id)
  }

  acknowledge(id: number): void {
    this.acknowledged.push(id)
  }
}
const connected = () => {
  join({ peer: ALICE, have: 'all' })
  const path = new FakePath()
  protocol.handleDirect(now, { kind: 'up', peer: ALICE, path })
  outputs()
  return path
}
const breakPath = (path: FakePath) => {
  path.isUp = false
  protocol.handleDirect(now, { kind: 'down', peer: ALICE, unread: path.given.splice(0) })
  return outputs()
}

describe('the peers of a page', () => {
  it('are connected once, however often the server names them', () => {
    expect(join({ peer: ALICE, have: 'some' })).toEqual(['joined', 'connected aa'])
    protocol.handleEvent(now, 'peer_joined', { peer: ALICE, have: 'all' })
    expect([outputs(), protocol.peers.get(ALICE)?.have]).toEqual([[], 'all'])
  })

  it('are replaced after a rejoin, and this tab is not one of them, also not with its earlier id', () => {
    join({ peer: ALICE, have: 'none' }, { peer: ME, have: 'none' })
    expect([...protocol.peers.keys()]).toEqual([ALICE])
    protocol.handleJoined(now, {
      peer: BOB,
      peers: [
        { peer: ME, have: 'all' },
        { peer: BOB, have: 'all' },
      ],
    })
    expect(outputs()).toEqual(['joined', 'disconnected aa'])
  })

  it('are dropped for misbehaviour, reported once, and do not come back', () => {
    join({ peer: ALICE, have: 'all' })
    for (let times = 0; times < 2; times++) protocol.ban(now, ALICE, 'stalled')
    expect([outputs(), join({ peer: ALICE, have: 'all' })]).toEqual([['disconnected aa', 'dropped stalled'], ['joined']])
  })

  it('have all of the page if by the server’s counts all viewers have it, unless the counts are older than a peer', () => {
    join({ peer: ALICE, have: 'none' })
    const counts = (watching: number) => protocol.handleEvent(now, 'counts', { watching, holders: watching, partial: 0 })
    counts(1)
    expect(protocol.peers.get(ALICE)?.have).toBe('none')
    counts(2)
    expect(protocol.peers.get(ALICE)?.have).toBe('all')
  })

  it('are asked for more peers by the server, and holders among them are named', () => {
    join()
    protocol.findProviders()
    expect(outputs()).toEqual(['more_peers'])
    expect(reply({ status: 'ok', response: { peers: [{ peer: ALICE, have: 'all' }] } })).toEqual(['connected aa', 'providers'])
  })
})

describe('a peer whose message numbers restart', () => {
  it('has lost our wants, so the exchange reconnects it before the next message', () => {
    expect([7, 8, 9].flatMap((message) => relay(message))).toEqual(['connected aa', 'message aa', 'message aa', 'message aa'])
    const restarted = ['disconnected aa', 'connected aa', 'message aa']
    expect([3_000_000_000, 3_000_000_001, 5].map((message) => relay(message))).toEqual([restarted, ['message aa'], restarted])
  })

  it.each([[[300, 299, 41, 301, 60_000]], [[2 ** 32 - 2, 1, 2 ** 32 - 1, 2]]])(
    'is not confused with one whose messages overtook each other or whose numbers wrapped: %j',
    (numbers) => {
      expect(numbers.flatMap((message) => relay(message))).toEqual(['connected aa', ...numbers.map(() => 'message aa')])
    },
  )
})

describe('a message that is relayed twice, because the reply of the server was late', () => {
  it('is read once, whole or in parts, also if the first copy is not decoded yet', () => {
    const inParts = (message: number) => [0, 1].flatMap((offset) => relay(message, { offset, total: 2, bytes: new Uint8Array(1) }))
    join({ peer: ALICE, have: 'all' })
    decodes = false
    expect([relay(7), relay(7), inParts(7)]).toEqual([[], [], []])
    decodes = true
    for (const ref of undecoded) protocol.handleDecoded(now, ref, MESSAGE)
    expect([outputs(), relay(7), inParts(8), inParts(8)]).toEqual([['message aa'], [], ['partial-message aa', 'message aa'], []])
  })
})

describe('messages that wait to be decoded', () => {
  it('are bounded: further ones are dropped', () => {
    decodes = false
    for (let message = 0; message < 300; message++) relay(message)
    for (let message = 300; message < 400; message++) relay(message, { bytes: new Uint8Array(LONG) })
    expect(undecoded).toHaveLength(256 + 16)
  })

  it('are of no peer that has left, and a peer is dropped for one that cannot be decoded', () => {
    decodes = false
    relay(1)
    relay(2, { from: BOB })
    protocol.handleEvent(now, 'peer_left', { peer: ALICE })
    for (const ref of undecoded) protocol.handleDecoded(now, ref, null)
    expect(outputs()).toEqual(['disconnected aa', 'disconnected bb', 'dropped malformed'])
  })
})

describe('actions that are due later', () => {
  it('are bounded: further ones are dropped', () => {
    join()
    for (let times = 0; times < 300; times++) protocol.handleEvent(now, 'available', {})
    expect(pass(1000)).toHaveLength(256)
  })
})

describe('silent peers', () => {
  it('are a reason to ask whether the server can be reached, once, while blocks are missing', () => {
    for (let times = 0; times < 10; times++) {
      relay(times)
      expect(pass(500)).toEqual([])
    }
    expect([pass(1_499), pass(1), pass(60_000)]).toEqual([[], ['quiet'], []])
    protocol.setHave('all', 1)
    relay(10)
    expect(pass(60_000)).toEqual([])
  })
})

describe('messages to a peer', () => {
  it('have numbers of one sequence on both paths, and others after the peer was lost', () => {
    random = 0
    join({ peer: ALICE, have: 'all' })
    send(1)
    const path = new FakePath()
    protocol.handleDirect(now, { kind: 'up', peer: ALICE, path })
    send(2)
    expect([relayed(), path.given.map(({ id }) => id)]).toEqual([[0], [0, 1]])
    random = 0.5
    protocol.handleEvent(now, 'peer_left', { peer: ALICE })
    protocol.handleEvent(now, 'peer_joined', { peer: ALICE })
    send(3)
    expect(relayed()).toEqual([0, 2 ** 31])
  })

  it('are reported as sent once, on one path or the other, and have room again', () => {
    const path = connected()
    send(5)
    const room = protocol.peers.get(ALICE)?.roomBytes ?? 0
    const [message] = path.given
    for (let times = 0; times < 2; times++) if (message !== undefined) protocol.handleDirect(now, { kind: 'sent', peer: ALICE, message })
    expect([outputs(), (protocol.peers.get(ALICE)?.roomBytes ?? 0) - room]).toEqual([['sent aa'], 5])
    breakPath(path)
    expect(reply(ok)).toEqual([])
    // The empty message that asks whether the peer is there.
    expect(reply(ok)).toEqual(['sent aa'])
  })

  it('wait 600 ms for a direct connection if the page and they are large, and no further ones do if it did not come', () => {
    join({ peer: ALICE, have: 'all' })
    protocol.setHave('some', 20 << 20)
    status = { kind: 'calling', hindrance: null }
    send(140_000)
    send(100)
    expect(relayed()).toEqual([2 ** 31 + 1])
    pass(599)
    expect(relayed()).toHaveLength(1)
    pass(1)
    expect(relayed()).toHaveLength(4)
    reply(ok)
    send(140_000)
    expect(relayed()).toHaveLength(3)
  })

  it('that request blocks give the peer 600 ms more to answer, once', () => {
    join({ peer: ALICE, have: 'all' })
    protocol.setHave('some', 20 << 20)
    outputs()
    expect(send(10, [], true)).toEqual(['calling aa'])
    expect([pass(599), pass(1)]).toEqual([[], ['partial-message aa']])
    send(10, [], true)
    expect(pass(10_000)).toEqual([])
  })

  it('lead to a direct connection with a tab once many bytes were exchanged, and not with a node', () => {
    join({ peer: ALICE, have: 'all' })
    expect(send(127 << 10)).toEqual([])
    expect([send(1 << 10), calls]).toEqual([['calling aa'], [`connect ${ALICE}`]])
    protocol.handleEvent(now, 'peer_joined', { peer: ALICE, kind: 'node' })
    expect(send(1 << 20)).toEqual([])
    expect(protocol.directStatus(ALICE)).toMatchObject({ kind: 'none', why: 'node' })
  })

  it('are not sent again if the peer got the first one with the join, and are if the server could not deliver it', () => {
    for (const [answer, expected] of [
      [ok, []],
      [gone, [2 ** 31]],
    ] as const) {
      const message = new Uint8Array(9)
      const { settle } = protocol.requestFirst(message)
      join({ peer: ALICE, have: 'all' })
      protocol.send(now, ALICE, message)
      outputs()
      expect(pushes).toEqual([])
      settle(now, answer)
      outputs()
      expect(relayed()).toEqual(expected)
    }
  })

  it('that went with an earlier join are no reason to send the one of a later join again', () => {
    const message = new Uint8Array(9)
    const early = protocol.requestFirst(message)
    join({ peer: ALICE, have: 'all' })
    protocol.handleLost(now)
    const late = protocol.requestFirst(message)
    join({ peer: BOB, have: 'all' })
    early.settle(now, { status: 'timeout' })
    expect([outputs(), relayed()]).toEqual([[], []])
    late.settle(now, gone)
    expect([outputs(), relayed()]).toEqual([[], [2 ** 31]])
  })

  it('are all sent after a later join without a request', () => {
    protocol.requestFirst(new Uint8Array(9))
    protocol.handleLost(now)
    join({ peer: ALICE, have: 'all' })
    send(9)
    expect(relayed()).toHaveLength(1)
  })
})

describe('a peer with a direct connection', () => {
  it('sends a message on both paths, and it is read once, in the order of the direct path', () => {
    const path = connected()
    relay(1)
    decodes = false
    const bytes = new Uint8Array(2)
    for (const message of [1, 2, 3])
      protocol.handleDirect(now, { kind: 'segment', peer: ALICE, segment: { message, offset: 0, total: 2, bytes } })
    // This copy arrives before the other one is read.
    relay(2)
    expect(path.acknowledged).toEqual([1])
    for (const ref of undecoded) protocol.handleDecoded(now, ref, MESSAGE)
    expect([outputs(), path.acknowledged]).toEqual([
      ['message aa', 'message aa'],
      [1, 2, 3],
    ])
  })

  it('has read messages with blocks before what it sends afterwards, and not before messages that cross them', () => {
    const path = connected()
    for (const blocks of [1, 0, 1]) send(LONG, Array<Cid>(blocks))
    expect(relay(2)).toEqual(['message aa'])
    // It arrives before the acknowledgement, and is decoded after it.
    decodes = false
    relay(3)
    path.given.shift()
    decodes = true
    for (const ref of undecoded) protocol.handleDecoded(now, ref, MESSAGE)
    expect(outputs()).toEqual(['message aa'])
    expect(relay(4)).toEqual(['acknowledged 1', 'message aa'])
    path.given.splice(0)
    expect([relay(5), relay(6)]).toEqual([['acknowledged 2', 'message aa'], ['message aa']])
  })

  it('may send invalid signals or frames, and is dropped', () => {
    connected()
    protocol.handleEvent(now, 'signal', encodeSignalFrame(ALICE, new Uint8Array(1)).buffer)
    expect(calls).toEqual([`signal ${ALICE}`])
    protocol.handleDirect(now, { kind: 'misbehaved', peer: ALICE })
    expect(outputs()).toEqual(['disconnected aa', 'dropped invalidSignals'])
  })
})

describe('a peer with a direct connection that the server cannot reach', () => {
  it.each([
    ['has left the server', gone, 1],
    ['does not answer there', { status: 'timeout' }, 3],
  ] as const)('stays, and gets what the relay has begun to send: it %s', (_what, answer, times) => {
    join({ peer: ALICE, have: 'all' })
    send(LONG)
    const path = new FakePath()
    protocol.handleDirect(now, { kind: 'up', peer: ALICE, path })
    outputs()
    for (let replies = 0; replies < times; replies++) {
      expect(path.given).toEqual([])
      expect(reply(answer)).toEqual([])
    }
    expect([path.given.map(({ id }) => id), pass(60_000), pushes]).toEqual([[2 ** 31], [], []])
    expect(protocol.peers.get(ALICE)?.isDirect).toBe(true)
  })
})

describe('a peer whose direct connection breaks', () => {
  it.each([
    ['is asked over the relay, and stays if it is there', ok, ['sent aa']],
    ['is removed if the server says that it has left', gone, ['disconnected aa']],
  ] as const)('%s', (_what, answer, follows) => {
    const path = connected()
    expect(protocol.peers.get(ALICE)?.isDirect).toBe(true)
    expect([breakPath(path), relayed().length]).toEqual([['path aa'], 1])
    expect(reply(answer)).toEqual(follows)
  })

  it.each([
    ['is removed if it sends nothing, and does not count any more', 'tab', false, false],
    ['stays if it sends something', 'tab', true, true],
    ['stays if it is a terminal, which may have closed the idle connection', 'node', false, true],
  ] as const)('%s', (_what, kind, sends, stays) => {
    const path = connected()
    protocol.handleEvent(now, 'peer_joined', { peer: ALICE, have: 'all', kind })
    protocol.setHave('all', 1)
    pass(10_000)
    breakPath(path)
    reply(ok)
    pass(4_900)
    expect(protocol.peers.has(ALICE)).toBe(true)
    if (sends) relay(2)
    expect(pass(10_000)).toEqual(stays ? [] : ['disconnected aa'])
    expect(protocol.counts.counts.watching).toBe(stays ? 3 : 2)
  })
})
